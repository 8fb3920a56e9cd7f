// On Node.js there is no host. A plugin's calls go to the double of the running test, see ../../testing.js.

let double;

/** Uses `host` as the double from now on, and returns the previous one. */
export function use(host) {
  const before = double;
  double = host;
  return before;
}

export function asked(module, name) {
  return (...values) => {
    if (double === undefined) {
      throw new Error(
        `${module}.${name} needs the Windlass host; in a test, make one with new TestHost() from 'windlass/testing' and call the plugin by it`,
      );
    }
    return double[module][name](...values);
  };
}
