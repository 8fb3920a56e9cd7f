// Reads YAML as definitions of kinds use it, so that a plugin's tests need no package for it: blocks and flows, quoted,
// plain and folded texts, comments, and several documents. It refuses other features, such as anchors and tags. It
// joins the lines of a text by spaces, which makes no difference to a definition.

const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'[\]{}&*!|>%@#`].*?)\s*:(?:\s+(.*))?$/;
const QUOTED = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/;
const IN_FLOW = /^(?:[^,[\]{}:]|:[^\s,\]}])+/;
const NUMBER = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const COMMENT = /(?:^|\s+)#.*$/;
const PLAIN = new Map([
  ...['', '~', 'null', 'Null', 'NULL'].map((word) => [word, null]),
  ...['true', 'True', 'TRUE'].map((word) => [word, true]),
  ...['false', 'False', 'FALSE'].map((word) => [word, false]),
]);

class Unfinished extends Error {}

/** Parses the documents of a text. JSON is YAML, too. */
export function documents(text) {
  if (text.trimStart().startsWith('{')) return [JSON.parse(text)];
  const found = [];
  let lines = [];
  for (const [number, line] of [...text.split('\n'), '---'].entries()) {
    if (line.trimEnd() !== '---' && !line.startsWith('--- ')) {
      lines.push(line.trimEnd());
      continue;
    }
    const reader = new Reader(lines);
    if (reader.peek() !== undefined) found.push(reader.document());
    // Line numbers count from the beginning of the text, so the lines before this document are empty.
    lines = new Array(number + 1).fill('');
  }
  return found;
}

class Reader {
  #lines;
  #at = 0;

  constructor(lines) {
    this.#lines = lines;
  }

  document() {
    const value = this.#node(0);
    const rest = this.peek();
    if (rest === undefined) return value;
    this.#at += 1;
    throw this.#wrong(`${rest.text} does not belong to what is above it`);
  }

  /** Returns the indentation and the text of the next line that is not empty. */
  peek() {
    for (; this.#at < this.#lines.length; this.#at += 1) {
      const line = this.#lines[this.#at];
      const text = line.trimStart();
      if (text !== '' && !text.startsWith('#')) return { indent: line.length - text.length, text };
    }
    return undefined;
  }

  /** Creates an error at the line that was read last. */
  #wrong(what) {
    return new SyntaxError(`this is not YAML that the test host supports: line ${this.#at}: ${what}`);
  }

  /** Reads the value that starts at the next line, if that is indented at least this far. */
  #node(least) {
    const line = this.peek();
    if (line === undefined || line.indent < least) return null;
    if (isItem(line.text)) return this.#list(line.indent);
    if (KEY.test(line.text)) return this.#object(line.indent);
    this.#at += 1;
    return this.#value(line.text, least - 1);
  }

  #list(indent) {
    const items = [];
    for (let line; (line = this.peek()) !== undefined && line.indent === indent && isItem(line.text);) {
      // The text after the dash counts as a line of its own, with its indentation.
      this.#lines[this.#at] = ' '.repeat(indent + 1) + line.text.slice(1);
      items.push(this.#node(indent + 1));
    }
    return items;
  }

  #object(indent) {
    const fields = {};
    for (let line; (line = this.peek()) !== undefined && line.indent === indent && !isItem(line.text);) {
      const [, key, text = ''] = KEY.exec(line.text) ?? [];
      if (key === undefined) break;
      this.#at += 1;
      fields[unquoted(key)] = this.#field(text, indent);
    }
    return fields;
  }

  #field(text, indent) {
    if (text !== '' && !text.startsWith('#')) return this.#value(text, indent);
    const line = this.peek();
    return line?.indent === indent && isItem(line.text) ? this.#list(indent) : this.#node(indent + 1);
  }

  /** Reads a value that starts with a text and continues in the lines that are indented further than its parent. */
  #value(text, parent) {
    if ('|>'.includes(text[0])) return this.#block(text, parent);
    if ('&*!%@`'.includes(text[0])) throw this.#wrong(`anchors, aliases and tags are not supported: ${text}`);
    if ('"\'[{'.includes(text[0])) return this.#flow(text);
    let plain = text.replace(COMMENT, '');
    for (let line; (line = this.peek()) !== undefined && line.indent > parent; this.#at += 1) plain += ` ${line.text}`;
    return scalar(plain);
  }

  /** Reads a text of several lines. */
  #block(header, parent) {
    const lines = [];
    for (; this.#at < this.#lines.length; this.#at += 1) {
      const line = this.#lines[this.#at];
      if (line !== '' && indentation(line) <= parent) break;
      lines.push(line);
    }
    const depth = Math.min(...lines.filter((line) => line !== '').map(indentation));
    const text = lines.map((line) => line.slice(depth)).join(header[0] === '>' ? ' ' : '\n').trimEnd();
    return header.includes('-') ? text : `${text}\n`;
  }

  /** Reads a value in brackets, braces or quotes. */
  #flow(text) {
    for (let whole = text; ;) {
      try {
        const [value, rest] = flow(whole);
        if (rest.replace(COMMENT, '').trim() !== '') throw new SyntaxError(`there is more text after the value: ${rest}`);
        return value;
      } catch (error) {
        if (!(error instanceof Unfinished) || this.#at === this.#lines.length) throw this.#wrong(error.message);
        whole += ` ${this.#lines[this.#at].trim()}`;
        this.#at += 1;
      }
    }
  }
}

function isItem(text) {
  return text === '-' || text.startsWith('- ');
}

function indentation(line) {
  return line.length - line.trimStart().length;
}

/** Reads the value at the start of a text, and returns it with the rest. */
function flow(text) {
  const begin = text.trimStart();
  if (begin === '') throw new Unfinished('a value does not end');
  if (begin[0] === '[') return flowList(begin.slice(1));
  if (begin[0] === '{') return flowObject(begin.slice(1));
  if (begin[0] === '"' || begin[0] === "'") {
    const quoted = QUOTED.exec(begin);
    if (quoted === null) throw new Unfinished('a text does not end');
    return [unquoted(quoted[0]), begin.slice(quoted[0].length)];
  }
  const plain = IN_FLOW.exec(begin);
  if (plain === null) throw new SyntaxError(`a value is missing before ${begin}`);
  return [scalar(plain[0].trim()), begin.slice(plain[0].length)];
}

const SEPARATORS = /^[ ,]*/;

function flowList(text) {
  const items = [];
  let rest = text.replace(SEPARATORS, '');
  while (rest[0] !== ']') {
    const [item, behind] = flow(rest);
    items.push(item);
    rest = behind.replace(SEPARATORS, '');
  }
  return [items, rest.slice(1)];
}

function flowObject(text) {
  const fields = {};
  let rest = text.replace(SEPARATORS, '');
  while (rest[0] !== '}') {
    const [key, behind] = flow(rest);
    const colon = behind.trimStart();
    if (colon === '') throw new Unfinished('a value does not end');
    if (colon[0] !== ':') throw new SyntaxError(`the key ${key} has no value`);
    const [value, behindValue] = flow(colon.slice(1));
    fields[key] = value;
    rest = behindValue.replace(SEPARATORS, '');
  }
  return [fields, rest.slice(1)];
}

/** Removes the quotes of a key or a text, if it has any. */
function unquoted(text) {
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  return text.startsWith('"') ? JSON.parse(text) : text;
}

/** Converts a plain text to its value. */
function scalar(text) {
  if (PLAIN.has(text)) return PLAIN.get(text);
  return NUMBER.test(text) ? Number(text) : text;
}
