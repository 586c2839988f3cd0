import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { LEAN_MEMORY, withLeanMemory } from "../src/lean-memory.ts";
import { ROOT } from "../src/root.ts";

it("keeps the options that the environment has", () => {
  const env = withLeanMemory({ HOME: "/home/a", NODE_OPTIONS: "--require=a.cjs", MALLOC_ARENA_MAX: "4" });
  expect(env).toMatchObject({ HOME: "/home/a", MALLOC_ARENA_MAX: "4", MALLOC_TRIM_THRESHOLD_: "131072" });
  expect(env.NODE_OPTIONS).toBe(`${LEAN_MEMORY.NODE_OPTIONS} --require=a.cjs`);
  expect(withLeanMemory({}).NODE_OPTIONS).toBe(LEAN_MEMORY.NODE_OPTIONS);
});

it("equals the settings of the images", async () => {
  const dockerfile = await readFile(join(ROOT, "Dockerfile"), "utf8");
  for (const [name, value] of Object.entries(LEAN_MEMORY))
    expect(dockerfile).toContain(`${name}=${value.includes(" ") ? `"${value}"` : value}`);
});
