import { setFlagsFromString } from "node:v8";
import { runService } from "@muster/service";
import { readConfig } from "./config.ts";
import { run } from "./service.ts";

// By default V8 lets the heap grow to four times its live size before it collects; most of the growth is garbage of finished passes.
setFlagsFromString("--heap-growing-percent=100");

await runService({ name: "session-controller", readConfig, run });
