/** The value of a JSON text. Whole numbers that a double cannot hold exactly are `BigInt`. */
export function parse(text: string): any;

/**
 * The JSON text of a value. The value may contain `BigInt`, but not `NaN`, `Infinity`, or one of the language's own
 * objects, such as a `Map`, a `Promise` or a `RegExp`. Values that are `undefined`, functions or symbols are left out,
 * and become `null` in an array. `what` names the value in errors.
 */
export function stringify(value: unknown, what?: string): string;
