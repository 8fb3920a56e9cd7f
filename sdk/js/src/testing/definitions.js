// Kinds that a test defines, and the validation of their objects. It supports structural schemas as far as unit tests need them, but not
// `format`, `allOf` and similar keywords, list types, and rules in CEL.

import { documents } from './yaml.js';

const HEAD = ['apiVersion', 'kind', 'metadata'];
const NAMES = {
  boolean: 'a boolean', integer: 'a whole number', number: 'a number', string: 'text', array: 'a list', object: 'an object',
};

export class Definitions {
  #schemas = new Map();

  /** Adds the kinds of CustomResourceDefinitions in YAML. */
  add(yaml) {
    const found = documents(yaml).flatMap(({ spec }) => (spec?.versions ?? []).map((version) => ({ spec, version })));
    if (found.length === 0) throw new TypeError(`there is no CustomResourceDefinition with versions in:\n${yaml}`);
    for (const { spec, version } of found) {
      this.#schemas.set(`${spec.group}/${version.name} ${spec.names.kind}`, version.schema?.openAPIV3Schema);
    }
  }

  /** The defined kinds. */
  kinds() {
    return [...this.#schemas.keys()].map((key) => {
      const [apiVersion, kind] = key.split(' ');
      return { apiVersion, kind };
    });
  }

  #schema({ apiVersion, kind }) {
    return this.#schemas.get(`${apiVersion} ${kind}`);
  }

  /** Fills in the defaults of the object's kind. */
  fill(object) {
    fill(this.#schema(object), object);
  }

  /** The errors of an object, as an API server reports them. For a write to the status, only the errors of the status. */
  misfits(object, { subresource, isStrict = true } = {}) {
    const schema = this.#schema(object);
    if (schema === undefined) return [];
    const judge = new Judge(isStrict);
    judge.value(schema, object, '');
    return judge.found.filter((text) => subresource !== 'status' || text.startsWith('.status'));
  }
}

/** Fills in defaults. A null in a field that is not nullable counts as absent. */
function fill(schema, value) {
  if (schema === undefined) return;
  if (Array.isArray(value)) {
    for (const item of value) fill(schema.items, item);
  } else if (isObject(value)) {
    const { properties = {}, additionalProperties: others } = schema;
    for (const [name, property] of Object.entries(properties)) {
      if (value[name] === null && !property.nullable) delete value[name];
      if (!has(value, name) && property.default !== undefined) value[name] = structuredClone(property.default);
    }
    for (const [name, field] of Object.entries(value)) fill(properties[name] ?? (isObject(others) ? others : undefined), field);
  }
}

class Judge {
  found = [];
  #isStrict;

  constructor(isStrict) {
    this.#isStrict = isStrict;
  }

  #say(path, what) {
    this.found.push(`${path}: ${what}`);
  }

  value(schema, value, path) {
    if (value === null && schema.nullable) return;
    const found = typeOf(value);
    const wanted = wantedBy(schema);
    if (wanted.length > 0 && !wanted.includes(found) && !(found === 'integer' && wanted[0] === 'number')) {
      this.#say(path, `${NAMES[found] ?? found} where ${wanted.map((name) => NAMES[name]).join(' or ')} is wanted`);
      return;
    }
    if (schema.enum?.some((one) => shown(one) === shown(value)) === false) {
      this.#say(path, `${shown(value)} is not one of ${schema.enum.map(shown).join(', ')}`);
    }
    if (found === 'string') {
      this.#size(schema, 'Length', [...value].length, path);
      if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value)) {
        this.#say(path, `${shown(value)} does not match ${schema.pattern}`);
      }
    } else if (found === 'array') {
      this.#size(schema, 'Items', value.length, path);
      value.forEach((item, place) => this.value(schema.items ?? {}, item, `${path}[${place}]`));
    } else if (found === 'object') {
      this.#size(schema, 'Properties', Object.keys(value).length, path);
      this.#fields(schema, value, path);
    } else if (found === 'integer' || found === 'number') this.#number(schema, value, path);
  }

  #fields(schema, fields, path) {
    const { properties = {}, required = [], additionalProperties: others } = schema;
    for (const name of required) if (!has(fields, name)) this.#say(`${path}.${name}`, 'is required');
    const isResource = path === '' || schema['x-kubernetes-embedded-resource'];
    const knowsAll = others === true || schema['x-kubernetes-preserve-unknown-fields'];
    for (const [name, field] of Object.entries(fields)) {
      const at = `${path}.${name}`;
      if (field === undefined || (isResource && HEAD.includes(name))) continue;
      if (Object.hasOwn(properties, name)) this.value(properties[name], field, at);
      else if (isObject(others)) this.value(others, field, at);
      else if (this.#isStrict && !knowsAll) this.#say(at, 'there is no such field');
    }
  }

  #number({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }, number, path) {
    if (number < minimum || (exclusiveMinimum && number == minimum)) this.#say(path, `${number} is too small for the minimum ${minimum}`);
    if (number > maximum || (exclusiveMaximum && number == maximum)) this.#say(path, `${number} is too large for the maximum ${maximum}`);
  }

  /** Checks the limits whose keywords end in `keyword`, such as minLength and maxLength. */
  #size(schema, keyword, size, path) {
    const [least, most] = [schema[`min${keyword}`], schema[`max${keyword}`]];
    if (size < least) this.#say(path, `its size is ${size}, and min${keyword} is ${least}`);
    if (size > most) this.#say(path, `its size is ${size}, and max${keyword} is ${most}`);
  }
}

/** The types that a schema allows; empty: any. */
function wantedBy(schema) {
  if (schema['x-kubernetes-int-or-string']) return ['integer', 'string'];
  return schema.type === undefined ? [] : [schema.type];
}

function typeOf(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'integer';
  // JSON does not distinguish 1.0 from 1.
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

/** An undefined value counts as absent: JSON cannot represent it. */
function has(fields, name) {
  return Object.hasOwn(fields, name) && fields[name] !== undefined;
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown(value) {
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value);
}
