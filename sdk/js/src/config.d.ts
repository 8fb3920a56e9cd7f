/** The operator's configuration, which is valid by the manifest's schema; `{}` if there is none. */
export function get<T = Record<string, unknown>>(): T;
