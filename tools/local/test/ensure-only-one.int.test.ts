import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ensureOnlyOne } from "../src/ensure-only-one.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-only-one-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it("admits one stack, refuses a second, and admits the next when the first has ended", async () => {
  const first = await ensureOnlyOne(directory);
  await expect(ensureOnlyOne(directory)).rejects.toMatchObject({ fault: { code: "already_exists" } });
  await first[Symbol.asyncDispose]();
  await using _next = await ensureOnlyOne(directory);
});

/** A process that holds the directory until it is killed. */
async function hold(held: string): Promise<{ readonly kill: () => Promise<void> }> {
  const module = JSON.stringify(new URL("../src/ensure-only-one.ts", import.meta.url).href);
  const program = `const { ensureOnlyOne } = await import(${module}); await ensureOnlyOne(process.argv[1]); console.log("held"); setInterval(() => {}, 1000);`;
  const holder = spawn(process.execPath, ["--input-type=module", "-e", program, held], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(holder.stdout, "data");
  return {
    kill: async () => {
      holder.kill("SIGKILL");
      await once(holder, "exit");
    },
  };
}

it("admits the next stack after the holder was killed", async () => {
  const holder = await hold(directory);
  await expect(ensureOnlyOne(directory)).rejects.toMatchObject({ fault: { code: "already_exists" } });
  await holder.kill();
  await using _next = await ensureOnlyOne(directory);
});

it("removes sockets of killed stacks elsewhere, and keeps those of stacks that run or start", async () => {
  const before = process.env["TMPDIR"];
  process.env["TMPDIR"] = directory;
  try {
    const sockets = async (): Promise<string[]> =>
      (await readdir(directory)).filter((name) => name.endsWith(".sock")).sort();
    await using _running = await ensureOnlyOne(join(directory, "running"));
    const running = await sockets();
    const killed = await hold(join(directory, "killed"));
    await killed.kill();
    const starting = await hold(join(directory, "starting"));
    const [young] = (await sockets()).filter((name) => !running.includes(name)).slice(-1);
    await starting.kill();
    await writeFile(join(directory, "muster-of-another-program.sock"), "");
    const longAgo = new Date(Date.now() - 60_000);
    for (const name of await sockets()) if (name !== young) await utimes(join(directory, name), longAgo, longAgo);
    // However long this process pauses now, the socket stays young.
    const soon = new Date(Date.now() + 600_000);
    await utimes(join(directory, young ?? ""), soon, soon);
    const next = await ensureOnlyOne(join(directory, "next"));
    const left = await sockets();
    await next[Symbol.asyncDispose]();
    expect(left).toEqual(expect.arrayContaining([...running, young, "muster-of-another-program.sock"]));
    // Plus the socket of the next stack; the killed stack's socket is gone.
    expect(left).toHaveLength(4);
  } finally {
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
  }
});

it("keeps stacks of different directories apart", async () => {
  await using _one = await ensureOnlyOne(join(directory, "a"));
  await using _other = await ensureOnlyOne(join(directory, "b"));
});
