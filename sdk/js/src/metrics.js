import * as host from '#host/metrics';
import { known, number, pairs, text, texts } from './wire.js';

export function add(name, value, labels) {
  host.add(text(name, 'name'), number(value, 'value'), pairs(labels, 'labels'));
}

export function set(name, value, labels) {
  host.set(text(name, 'name'), number(value, 'value'), pairs(labels, 'labels'));
}

export function observe(name, value, labels) {
  host.observe(text(name, 'name'), number(value, 'value'), pairs(labels, 'labels'));
}

// A metric that both the manifest and the code use. Its enumerable fields are those of the manifest.
class Metric {
  constructor(type, name, { help, labels, buckets }) {
    this.name = text(name, 'name');
    this.type = type;
    this.help = text(help, 'help');
    if (labels !== undefined) this.labels = texts(labels, 'labels');
    if (buckets !== undefined) this.buckets = buckets;
  }
}

class Counter extends Metric {
  add(value, labels) {
    add(this.name, value, labels);
  }
}

class Gauge extends Metric {
  set(value, labels) {
    set(this.name, value, labels);
  }
}

class Histogram extends Metric {
  observe(value, labels) {
    observe(this.name, value, labels);
  }
}

export const counter = (name, about) => new Counter('counter', name, known(about, ['help', 'labels'], 'a counter'));
export const gauge = (name, about) => new Gauge('gauge', name, known(about, ['help', 'labels'], 'a gauge'));
export const histogram = (name, about) =>
  new Histogram('histogram', name, known(about, ['help', 'labels', 'buckets'], 'a histogram'));
