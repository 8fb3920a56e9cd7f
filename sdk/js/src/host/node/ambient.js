// On Node.js the globals are Node.js's own. `windlass/testing` replaces them while a plugin is called.
