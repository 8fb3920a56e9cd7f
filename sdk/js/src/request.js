// The request of a call, in the form for the plugin.

import { parse } from './json.js';

export class Request {
  #text;
  #object;

  constructor({ controller, namespace, name, uid, object, deleting, attempt, traceId }) {
    this.controller = controller;
    if (namespace != null) this.namespace = namespace;
    this.name = name;
    if (uid != null) this.uid = uid;
    this.deleting = deleting;
    this.attempt = attempt >>> 0;
    this.traceId = traceId;
    this.#text = object ?? undefined;
  }

  /** The object is parsed at its first use. */
  get object() {
    if (this.#text !== undefined) {
      this.#object = parse(this.#text);
      this.#text = undefined;
    }
    return this.#object;
  }
}

export class CompositionRequest extends Request {
  #texts;
  #parsed = {};

  constructor({ request, ...texts }) {
    super(request);
    this.#texts = texts;
  }

  get parent() {
    return this.#once('parent', parse);
  }

  get children() {
    return this.#once('children', (texts) => texts.map(parse));
  }

  get related() {
    return this.#once('related', (texts) => texts.map(parse));
  }

  get config() {
    return this.#once('config', parse);
  }

  child(target) {
    return find(this.children, target);
  }

  relatedObject(target) {
    return find(this.related, target);
  }

  #once(name, read) {
    this.#parsed[name] ??= read(this.#texts[name]);
    return this.#parsed[name];
  }
}

function find(objects, { apiVersion, kind, namespace, name, uid }) {
  return objects.find(
    (object) =>
      object.apiVersion === apiVersion && object.kind === kind && object.metadata.name === name &&
      object.metadata.namespace === namespace && (uid === undefined || object.metadata.uid === uid),
  );
}
