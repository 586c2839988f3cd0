import { runService } from "@muster/service";
import { readConfig } from "./config.ts";
import { run } from "./service.ts";

await runService({ name: "provision-engine", readConfig, run: (context) => run(context) });
