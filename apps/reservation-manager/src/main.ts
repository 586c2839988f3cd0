import { runService } from "@muster/service";
import { runManager } from "./adapters/deps.ts";
import { readConfig } from "./config.ts";

await runService({ name: "reservation-manager", readConfig, run: runManager });
