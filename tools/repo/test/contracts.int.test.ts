import { execFileSync, spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../../..");
const PROGRAM = "tools/repo/check-contracts.mjs";
const PROGRAM_FILES = [
  PROGRAM,
  ...["version-plugin.mjs", "schema-contracts.ts", "find-schema-narrowings.ts"].map((name) => `tools/repo/${name}`),
];
const QUEUES = "deploy/crds/muster.dev_queues.yaml";
const VALUES = "deploy/helm/muster/values.schema.json";
const SCHEMAS = [QUEUES, VALUES];
const NAME = "muster/planted/v1/planted.proto";
const MESSAGE = `syntax = "proto3";

package muster.planted.v1;

message Planted {
  string name = 1;
  int64 amount = 2;
}
`;

describe("npm run contracts", () => {
  let clone: string;

  const check = (...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
      cwd: clone,
      encoding: "utf8",
    });
    return { status, output: stdout + stderr };
  };
  const git = (...args: readonly string[]): string => execFileSync("git", args, { cwd: clone, encoding: "utf8" });
  const plant = async (text: string): Promise<void> => {
    const file = join(clone, "proto", NAME);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  };

  // A clone after a release whose only message is this one.
  beforeAll(async () => {
    clone = await mkdtemp(join(tmpdir(), "muster-contracts-"));
    for (const path of [...PROGRAM_FILES, ...SCHEMAS, "package.json", "proto/buf.yaml"])
      await cp(join(ROOT, path), join(clone, path), { recursive: true });
    await mkdir(join(clone, "contracts"));
    await symlink(join(ROOT, "node_modules"), join(clone, "node_modules"));
    await plant(MESSAGE);
    git("init", "--quiet");
    git(
      "-c",
      "user.name=test",
      "-c",
      "user.email=test@example.com",
      "commit",
      "--quiet",
      "--allow-empty",
      "-m",
      "release",
    );
    const stored = check("--store");
    expect(stored.output).toContain("contracts: stored those of");
    expect(stored.status).toBe(0);
  });
  afterAll(() => rm(clone, { recursive: true, force: true }));

  it("stores the commit of the release, whose programs run beside later ones", async () => {
    expect(await readFile(join(clone, "contracts/baseline"), "utf8")).toBe(git("rev-parse", "HEAD"));
  });

  it.each([
    ["no change", MESSAGE],
    ["a new field", MESSAGE.replace("}", "  string because = 3;\n}")],
    ["a new message", `${MESSAGE}\nmessage Another {\n  string name = 1;\n}\n`],
    [
      "a field whose name and number are reserved",
      MESSAGE.replace("  int64 amount = 2;", '  reserved 2;\n  reserved "amount";'),
    ],
  ])("accepts %s", async (_what, text) => {
    await plant(text);
    expect(check()).toEqual({ status: 0, output: expect.stringContaining("no breaking change since") as string });
  });

  it.each([
    ["a field that is removed", MESSAGE.replace("  int64 amount = 2;\n", ""), /field "2".*deleted/],
    ["another number of a field", MESSAGE.replace("= 2", "= 3"), /field "2".*deleted/],
    ["another type of a field", MESSAGE.replace("int64", "string"), /Field "2".*changed type/],
    ["another name of a field", MESSAGE.replace("amount", "sum"), /changed (?:JSON )?name/],
    ["what the linter refuses", MESSAGE.replace("amount", "theAmount"), /lower_snake_case/],
  ])("refuses %s, and names it", async (_what, text, named) => {
    await plant(text);
    const { status, output } = check();
    expect(output).toMatch(named);
    expect(output).toContain(NAME);
    expect(output).toMatch(/^error: contracts: buf (?:lint|breaking) refuses proto\/.*\n$/m);
    expect(output).not.toMatch(/^ +at /m);
    expect(status).toBe(1);
  });

  it.each([
    [
      "a field of a definition",
      QUEUES,
      "lendingLimit:",
      "lendingLimits:",
      /^queues\.muster\.dev\/v1: .*the field is removed$/m,
    ],
    [
      "a value of the chart",
      VALUES,
      '"takeOverFrom"',
      '"takeOver"',
      /^values of the chart: takeOverFrom: the field is removed$/m,
    ],
  ])("refuses that %s is removed, and names it", async (_what, file, old, now, named) => {
    await plant(MESSAGE);
    const text = await readFile(join(ROOT, file), "utf8");
    await writeFile(join(clone, file), text.replaceAll(old, now));
    const { status, output } = check();
    await writeFile(join(clone, file), text);
    expect(output).toMatch(named);
    expect(status).toBe(1);
  });

  it("refuses descriptors of two releases", async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
    await plant(MESSAGE);
    const other = join(clone, "contracts/0.0.1.binpb");
    await cp(join(clone, "contracts", `${version}.binpb`), other);
    expect(check().output).toContain("contracts/ has 2 descriptors; exactly one is needed");
    await rm(other);
    expect(check().status).toBe(0);
  });
});
