import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const run = promisify(execFile);

it.each([
  [{ OTEL_SERVICE_NAME: "renamed" }, "false"],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" }, "true"],
])(
  "with %o it is %s that the SDK is loaded, whose memory a process that exports nothing does not pay for",
  async (env, loaded) => {
    const { stdout } = await run(process.execPath, [join(import.meta.dirname, "loaded.process.ts")], { env });
    expect(stdout).toBe(loaded);
  },
);
