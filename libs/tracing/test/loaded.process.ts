import { registerHooks } from "node:module";

/** Starts and ends telemetry with the variables of this process, and writes whether that has loaded the SDK for Node. */
let loaded = false;
registerHooks({
  resolve: (specifier, context, next) => {
    loaded ||= specifier === "@opentelemetry/sdk-node";
    return next(specifier, context);
  },
});
const { startTelemetry } = await import("../src/index.ts");
await (await startTelemetry({ service: "tested", version: "1", env: process.env }))[Symbol.asyncDispose]();
process.stdout.write(String(loaded));
