import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const LOGGER = join(import.meta.dirname, "../src/logger.ts");

/** What a process prints on standard error that logs these fields once. */
async function logged(fields: string): Promise<string> {
  const program = `
    import { createLogger } from ${JSON.stringify(LOGGER)};
    createLogger({ level: "info", service: "test", instance: "test-1" }).error(${fields}, "failed");`;
  const { stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program]);
  return stderr;
}

it.each([
  ["a field of the line", `{ token: "hush" }`],
  ["a field of an object", `{ access: { nkey: "hush", url: "nats://localhost" } }`],
  ["a field of an error", `{ err: Object.assign(new Error("refused"), { kubeconfig: "hush" }) }`],
  ["a field of a fault of an error", `{ err: Object.assign(new Error("refused"), { fault: { seed: "hush" } }) }`],
  ["a field two objects deep", `{ request: { headers: { authorization: "hush" } } }`],
])("does not log a secret that is %s", async (_where, fields) => {
  const line = await logged(fields);
  expect(line).not.toContain("hush");
  expect(JSON.parse(line)).toMatchObject({ level: "error", service: "test", msg: "failed" });
  expect(line).toContain("[Redacted]");
});
