import * as host from '#host/http';
import { HttpError } from './errors.js';
import { parse, stringify } from './json.js';
import { isRefusal, known, nameOf, optionalMilliseconds, pairs, text } from './wire.js';
import { decode, encode } from './utf8.js';

const INIT = ['method', 'headers', 'body', 'json', 'timeoutMs'];

export function fetch(url, init) {
  const { method = 'GET', headers, body, json, timeoutMs } = known(init, INIT, 'the options of http.fetch');
  const request = {
    method: text(method, 'method'),
    url: text(url, 'url'),
    headers: pairs(headers, 'headers'),
    body: bodyOf(body),
    timeoutMs: optionalMilliseconds(timeoutMs, 'timeoutMs'),
  };
  if (json !== undefined) {
    request.body = { tag: 'text', val: stringify(json, 'the body of an HTTP request') };
    request.headers.push(['content-type', 'application/json']);
  }
  // The target in messages omits the query, which is the part most likely to contain secrets.
  const target = `${request.method} ${request.url.split(/[?#]/, 1)[0]}`;
  try {
    return new Response(host.fetch(request), target);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new HttpError(target, error.payload.reason, error.payload.message);
  }
}

function bodyOf(body) {
  if (body === undefined || body === null) return undefined;
  if (typeof body === 'string') return { tag: 'text', val: text(body, 'body') };
  if (body instanceof Uint8Array) return { tag: 'bytes', val: body };
  throw new TypeError(`body must be a string or a Uint8Array, not ${nameOf(body)}; to send JSON, use the option "json"`);
}

class Response {
  #target;

  constructor({ status, headers, body }, target) {
    this.status = status;
    this.headers = headers;
    this.body = body.val;
    this.#target = target;
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  header(name) {
    const wanted = name.toLowerCase();
    return this.headers.find(([known]) => known.toLowerCase() === wanted)?.[1];
  }

  text() {
    return typeof this.body === 'string' ? this.body : decode(this.body);
  }

  bytes() {
    return typeof this.body === 'string' ? encode(this.body) : this.body;
  }

  json() {
    return parse(this.text());
  }

  throwIfNotOk() {
    if (!this.ok) throw new HttpError(this.#target, 'status', `answered with status ${this.status}`);
    return this;
  }
}
