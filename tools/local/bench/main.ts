/**
 * What a session costs beside what it runs, and many sessions at once. Run: nx run local:bench, or node tools/local/bench/main.ts [overhead|crowd].
 * How to read it: docs/PERFORMANCE.md.
 */
import { crowd } from "./crowd.ts";
import { overhead } from "./overhead.ts";

const parts = process.argv.slice(2);
if (parts.length === 0 || parts.includes("overhead")) await overhead();
if (parts.length === 0 || parts.includes("crowd")) await crowd();
