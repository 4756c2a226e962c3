import { defineConfig } from "vitest/config";

/** Tests of the built page in a real browser; they need Chromium, so `npm test` leaves them out. */
export default defineConfig({
  test: { include: ["test/browser/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000, maxWorkers: 1 },
});
