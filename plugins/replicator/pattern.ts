// Patterns for names of namespaces: regular expressions that must match the whole name.
//
// The engine's own regular expressions may take time that is exponential in the length of a name, and anyone who may
// annotate a Secret can write a pattern. So this matcher follows all alternatives at once: from a set of places in the
// name, each part of a pattern leads to a set of places.

/** The longest name of a namespace. No part of a pattern needs to be repeated more often. */
const NAME_LENGTH_MAX = 63;
/** The most levels of groups in a pattern. */
const GROUPS_MAX = 20;
/** The longest pattern. */
const PATTERN_LENGTH_MAX = 1_000;

type Places = ReadonlySet<number>;
/** Leads from places in a text to the places behind a match. */
type Step = (text: string, from: Places) => Places;

/** A pattern that cannot be read. The message is for its author. */
class PatternError extends Error {}

/** Whether a name fits one of the patterns. Patterns that cannot be read fit no name. */
export function fitsAny(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => (isName(pattern) ? pattern === name : read(pattern).fits(name)));
}

/** Why a pattern cannot be read. Undefined if it can. */
export function patternError(pattern: string): string | undefined {
  return isName(pattern) ? undefined : read(pattern).error;
}

function read(pattern: string): { fits: (name: string) => boolean; error?: string } {
  try {
    return { fits: compile(pattern) };
  } catch (error) {
    if (error instanceof PatternError) return { fits: () => false, error: error.message };
    throw error;
  }
}

/** Whether a pattern is the name of one namespace. */
export function isName(pattern: string): boolean {
  return /^[a-z0-9-]+$/.test(pattern);
}

/** Reads a pattern, and returns whether a name fits it. Throws a {@link PatternError}. */
function compile(pattern: string): (name: string) => boolean {
  if (pattern.length > PATTERN_LENGTH_MAX) throw new PatternError(`it is longer than ${PATTERN_LENGTH_MAX} characters`);
  const reader = new Reader(pattern);
  const step = reader.alternatives();
  reader.finish();
  return (name) => step(name, new Set([0])).has(name.length);
}

/** Reads a pattern from left to right. */
class Reader {
  private at = 0;
  private depth = 0;

  constructor(private readonly pattern: string) {}

  finish(): void {
    if (this.at < this.pattern.length) throw new PatternError(`the ) at character ${this.at + 1} closes no group`);
  }

  alternatives(): Step {
    const branches = [this.sequence()];
    while (this.take('|')) branches.push(this.sequence());
    if (branches.length === 1) return branches[0]!;
    return (text, from) => new Set(branches.flatMap((branch) => [...branch(text, from)]));
  }

  private sequence(): Step {
    const steps: Step[] = [];
    while (this.at < this.pattern.length && !'|)'.includes(this.next())) steps.push(this.repeated());
    return (text, from) => steps.reduce((places, step) => (places.size === 0 ? places : step(text, places)), from);
  }

  private repeated(): Step {
    let step = this.atom();
    for (;;) {
      const times = this.times();
      if (times === undefined) return step;
      step = repeat(step, ...times);
    }
  }

  /** The bounds of the repetition that comes next. */
  private times(): [number, number] | undefined {
    const rest = this.pattern.slice(this.at);
    const [whole, sign, least, comma, most] = /^(?:([*+?])|\{(\d{1,4})(,)?(\d{1,4})?\})\??/.exec(rest) ?? [];
    if (whole === undefined) return undefined;
    this.at += whole.length;
    if (sign !== undefined) return [sign === '+' ? 1 : 0, sign === '?' ? 1 : NAME_LENGTH_MAX];
    const bounds = [Number(least), comma === undefined ? Number(least) : Number(most ?? NAME_LENGTH_MAX)] as const;
    return [Math.min(bounds[0], NAME_LENGTH_MAX + 1), Math.min(bounds[1], NAME_LENGTH_MAX + 1)];
  }

  private atom(): Step {
    const character = this.pattern.charAt(this.at++);
    switch (character) {
      case '(': return this.group();
      case '[': return one(this.class());
      case '.': return one(() => true);
      case '^': return (_, from) => new Set([...from].filter((place) => place === 0));
      case '$': return (text, from) => new Set([...from].filter((place) => place === text.length));
      case '\\': return one(this.escape());
      case '*': case '+': case '?': throw new PatternError(`nothing stands before the ${character} at character ${this.at}`);
      default: return one((found) => found === character);
    }
  }

  private group(): Step {
    const opened = this.at;
    this.depth += 1;
    if (this.depth > GROUPS_MAX) throw new PatternError(`its groups have more than ${GROUPS_MAX} levels`);
    if (this.take('?') && !this.take(':')) throw new PatternError('groups that begin with (? are not supported, except for (?:');
    const step = this.alternatives();
    if (!this.take(')')) throw new PatternError(`the ( at character ${opened} is not closed`);
    this.depth -= 1;
    return step;
  }

  private class(): (character: string) => boolean {
    const opened = this.at;
    const isNegated = this.take('^');
    const tests: Array<(character: string) => boolean> = [];
    while (tests.length === 0 || this.next() !== ']') {
      if (this.at >= this.pattern.length) throw new PatternError(`the [ at character ${opened} is not closed`);
      tests.push(this.classPart());
    }
    this.at += 1;
    return (character) => tests.some((test) => test(character)) !== isNegated;
  }

  private classPart(): (character: string) => boolean {
    const first = this.pattern.charAt(this.at++);
    if (first === '\\') return this.escape();
    if (first === '[' && this.next() === ':') throw new PatternError('classes such as [:alpha:] are not supported');
    const last = this.pattern.charAt(this.at + 1);
    if (this.next() !== '-' || last === ']' || last === '') return (character) => character === first;
    if (last < first) throw new PatternError(`the range ${first}-${last} is empty`);
    this.at += 2;
    return (character) => first <= character && character <= last;
  }

  private escape(): (character: string) => boolean {
    const character = this.pattern.charAt(this.at++);
    if ('dDwW'.includes(character) && character !== '') {
      const known = character.toLowerCase() === 'd' ? /[0-9]/ : /[0-9A-Za-z_]/;
      return (found) => known.test(found) === (character === character.toLowerCase());
    }
    if (/[A-Za-z0-9]/.test(character) || character === '') throw new PatternError(`\\${character} is not supported`);
    return (found) => found === character;
  }

  private next(): string {
    return this.pattern.charAt(this.at);
  }

  private take(character: string): boolean {
    if (this.next() !== character) return false;
    this.at += 1;
    return true;
  }
}

function one(test: (character: string) => boolean): Step {
  return (text, from) => new Set([...from].filter((place) => place < text.length && test(text.charAt(place))).map((place) => place + 1));
}

/** The step, at least `least` and at most `most` times. */
function repeat(step: Step, least: number, most: number): Step {
  return (text, from) => {
    let places = from;
    for (let times = 0; times < least && places.size > 0; times += 1) places = step(text, places);
    const reached = new Set(places);
    for (let times = least; times < most && places.size > 0; times += 1) {
      // Only places that are new can lead to new places.
      places = new Set([...step(text, places)].filter((place) => !reached.has(place)));
      places.forEach((place) => reached.add(place));
    }
    return reached;
  };
}
