import { readFileSync } from "node:fs";
import { runService } from "@muster/service";
import { PROVIDER_KINDS } from "./adapters/providers.ts";
import { readConfig } from "./config.ts";
import { run } from "./service.ts";

const readText = (path: string): string => readFileSync(path, "utf8");

await runService({
  name: "node-scaler",
  readConfig: (env) => readConfig(env, { readText, kinds: PROVIDER_KINDS }),
  run,
});
