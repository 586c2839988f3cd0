import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { onlyOne } from "../src/only-one.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-only-one-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it("lets one stack in, refuses the second, and lets the next in when the first is gone", async () => {
  const first = await onlyOne(directory);
  await expect(onlyOne(directory)).rejects.toMatchObject({ fault: { code: "already_exists" } });
  await first[Symbol.asyncDispose]();
  await using _next = await onlyOne(directory);
});

it("lets the next in after the holder was killed", async () => {
  const module = JSON.stringify(new URL("../src/only-one.ts", import.meta.url).href);
  const program = `const { onlyOne } = await import(${module}); await onlyOne(process.argv[1]); console.log("held"); setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "-e", program, directory], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(holder.stdout, "data");
  await expect(onlyOne(directory)).rejects.toMatchObject({ fault: { code: "already_exists" } });
  holder.kill("SIGKILL");
  await once(holder, "exit");
  await using _next = await onlyOne(directory);
});

it("keeps stacks of different directories apart", async () => {
  await using _one = await onlyOne(join(directory, "a"));
  await using _other = await onlyOne(join(directory, "b"));
});
