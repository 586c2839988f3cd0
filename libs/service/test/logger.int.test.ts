import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";

const LOGGER = join(import.meta.dirname, "../src/logger.ts");

/** Runs a process with a `logger` and these statements, and returns its standard error. */
function printed(statements: string): Promise<string> {
  const program = `
    import { createLogger } from ${JSON.stringify(LOGGER)};
    const logger = createLogger({ level: "info", service: "test", instance: "test-1" });
    ${statements}`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  return text(child.stderr);
}

/** Returns the printed line with these fields. */
function logged(fields: string): Promise<string> {
  return printed(`logger.error(${fields}, "failed");`);
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

it.each([
  ["returns", ""],
  ["throws", "throw new Error();"],
  ["exits", "process.exit();"],
  ["is killed after the turn", `setImmediate(() => process.kill(process.pid, "SIGKILL"));`],
  ["is killed after a warning", `logger.warn({}, "third"); process.kill(process.pid, "SIGKILL");`],
  ["is killed after a warning of a child", `logger.child({}).warn({}, "third"); process.kill(process.pid, "SIGKILL");`],
])("prints the lines of a process in order that %s", async (_how, end) => {
  const output = await printed(`logger.info({}, "first"); logger.info({}, "second"); ${end}`);
  expect(output).toMatch(/"first".*\n.*"second".*\n/);
  expect(output.includes('"third"')).toBe(end.includes("third"));
});

it.each([
  ["after lines of a turn", `logger.info({}, "lost");`],
  ["after a warning", `logger.warn({}, "lost");`],
])("does not stop a process whose standard error has lost its reader, %s", async (_when, statement) => {
  const program = `
    import { createLogger } from ${JSON.stringify(LOGGER)};
    const logger = createLogger({ level: "info", service: "test", instance: "test-1" });
    process.stdin.once("data", () => {
      ${statement}
      setImmediate(() => { process.stdout.write("continues"); process.exit(); });
    });
    process.stdout.write("ready");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program]);
  const ended = once(child, "exit");
  await once(child.stdout, "data");
  child.stderr.destroy();
  await once(child.stderr, "close");
  child.stdin.write("go");
  const output = await text(child.stdout);
  expect([output, await ended]).toEqual(["continues", [0, null]]);
});
