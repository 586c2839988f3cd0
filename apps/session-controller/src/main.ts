import { setFlagsFromString } from "node:v8";
import { runService } from "@muster/service";
import { readConfig } from "./config.ts";
import { run } from "./service.ts";

// By default V8 lets the heap grow to four times the live size before it collects, mostly with garbage of ended passes.
setFlagsFromString("--heap-growing-percent=100");

await runService({ name: "session-controller", readConfig, run });
