// Builds the page and tests it in Chromium; where there is none, says so and leaves them out.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

if (existsSync(CHROMIUM)) {
  for (const script of ["build:page", "test:browser"]) {
    execFileSync("npm", ["run", "--silent", script], { stdio: "inherit" });
  }
} else {
  console.log(`${CHROMIUM} is not there (CHROMIUM=/path/to/it): the browser tests are left out`);
}
