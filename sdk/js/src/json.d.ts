/** The value of a JSON text. Whole numbers that a double cannot hold exactly are `BigInt`. */
export function parse(text: string): any;

/** The JSON text of a value, in which there may be `BigInt`, but not `NaN`, `Infinity`, a `Map` or a `Set`. `what` names it in errors. */
export function stringify(value: unknown, what?: string): string;
