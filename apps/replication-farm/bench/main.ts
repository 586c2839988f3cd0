/**
 * How fast replica sets are placed and taken over, and what they cost while nothing happens. Run: node apps/replication-farm/bench/main.ts
 * [takeover|place|quiet|events]
 */
import { runBenches } from "@muster/testkit";
import { measureEvents } from "./events.ts";
import { measurePlacement } from "./place.ts";
import { measureQuiet } from "./quiet.ts";
import { measureTakeover } from "./takeover.ts";

await runBenches({ takeover: measureTakeover, place: measurePlacement, quiet: measureQuiet, events: measureEvents });
