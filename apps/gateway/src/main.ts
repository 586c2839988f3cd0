import { runService } from "@muster/service";
import { readConfig } from "./config.ts";
import { run } from "./service.ts";

await runService({ name: "gateway", readConfig, run });
