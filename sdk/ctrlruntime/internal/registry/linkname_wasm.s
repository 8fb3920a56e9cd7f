// With this file the package may have a function without a body.
