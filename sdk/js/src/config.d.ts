/** The operator's configuration, which the manifest's schema accepts; `{}` if there is none. */
export function get<T = Record<string, unknown>>(): T;
