import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/browser/**"],
    // The suites are short; a second worker would only fight for the cores with whatever else runs.
    maxWorkers: 2,
    // Whatever else the machine does, a test that works is not to fail of it.
    testTimeout: 30_000,
  },
});
