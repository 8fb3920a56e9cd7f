/** The value of a JSON text. Whole numbers that a double cannot hold exactly are `BigInt`. */
export function parse(text: string): any;

/**
 * The JSON text of a value, in which there may be `BigInt`, but not `NaN`, `Infinity`, nor an object of the language's own such as a `Map`,
 * a `Promise` or a `RegExp`. What is `undefined`, a function or a symbol is left out, and `null` in an array. `what` names it in errors.
 */
export function stringify(value: unknown, what?: string): string;
