/** How fast replica sets are placed and taken over, and what they cost while nothing happens. Run: node apps/replication-farm/bench/main.ts [takeover|place|quiet] */
import { measurePlacement } from "./place.ts";
import { measureQuiet } from "./quiet.ts";
import { measureTakeover } from "./takeover.ts";

const all = { takeover: measureTakeover, place: measurePlacement, quiet: measureQuiet };
const wanted = process.argv.slice(2);
for (const [name, measure] of Object.entries(all)) if (wanted.length === 0 || wanted.includes(name)) await measure();
