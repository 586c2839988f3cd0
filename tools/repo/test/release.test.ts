import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildTar, gzip, withFolders, type Entry } from "../release/archive.ts";
import { buildChart } from "../release/build-chart.ts";
import { buildChecksums } from "../release/build-checksums.ts";
import { buildCompose } from "../release/build-compose.ts";
import { decideVersion, getSection } from "../release/decide-version.ts";
import { buildLicenses, checkLicenses, isAllowed } from "../release/licenses.ts";
import { readStage } from "../release/read-stage.ts";
import { readOptions } from "../release/release.ts";
import { replaceVersion } from "../set-version.ts";

const ROOT = join(import.meta.dirname, "../../..");
const { version: OWN } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
const file = (path: string, text = "", executable = false): Entry => ({ path, content: Buffer.from(text), executable });

describe("archives", () => {
  it("have the same bytes for the same entries in any order", () => {
    const entries = ["b", "a/b", "a", "z/", "long/".repeat(30) + "name"].map((path) => file(path, path));
    fc.assert(
      fc.property(fc.shuffledSubarray(entries, { minLength: entries.length }), (shuffled) => {
        expect(gzip(buildTar(shuffled, 5))).toEqual(gzip(buildTar(entries, 5)));
      }),
    );
  });

  it("have owner 0, the given time, one of two modes, and a valid sum of each header", () => {
    const tar = buildTar([file("bin/run", "x", true), file("data", "yz"), file("folder/")], 1_700_000_000);
    const headers = [0, 2, 4].map((block) => tar.subarray(block * 512, (block + 1) * 512));
    const field = (header: Buffer, at: number, length: number) => header.toString("latin1", at, at + length);
    expect(headers.map((header) => field(header, 100, 8))).toEqual(["0000755\0", "0000644\0", "0000755\0"]);
    expect(headers.map((header) => field(header, 156, 1))).toEqual(["0", "0", "5"]);
    for (const header of headers) {
      expect(field(header, 108, 16)).toBe("0000000\u00000000000\0");
      expect(Number.parseInt(field(header, 136, 11), 8)).toBe(1_700_000_000);
      const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
      expect(Number.parseInt(field(header, 148, 6), 8)).toBe(sum);
    }
  });

  it("refuse a duplicate path, and one that is too long", () => {
    expect(() => buildTar([file("a"), file("a")], 0)).toThrow("a is twice in the archive");
    expect(() => buildTar([file("x".repeat(101))], 0)).toThrow("too long");
  });

  it("name no operating system in their compression", () => {
    const compressed = gzip(Buffer.from("text"));
    expect([compressed[9], gunzipSync(compressed).toString()]).toEqual([255, "text"]);
  });

  it("have each folder of a layer once", () => {
    expect(withFolders([file("a/b/c"), file("a/d")]).map(({ path }) => path)).toEqual(["a/", "a/b/", "a/b/c", "a/d"]);
  });
});

describe("the version", () => {
  it.each([
    ["1.2.0", "accepted"],
    ["1.2.0-rc.1", "accepted"],
    ["1.2.0-test.3-a", "accepted"],
    ["1.2.1", "package.json has the version 1.2.0"],
    ["v1.2.0", "is no version"],
    ["1.2", "is no version"],
    ["1.2.0+build", "is no version"],
    ["01.2.0", "is no version"],
  ])("%s of a tree with 1.2.0: %s", (version, expected) => {
    const verdict = decideVersion(version, "1.2.0");
    if (verdict.kind === "accepted") expect([verdict.core, verdict.kind]).toEqual(["1.2.0", expected]);
    else expect(verdict.because).toContain(expected);
  });

  it("has a section in the changelog", async () => {
    expect(getSection("# C\n\n## 2.0.0 (today)\n\n- a\n\n## 1.0.0\n\n- b\n", "2.0.0")).toBe(
      "## 2.0.0 (today)\n\n- a\n",
    );
    expect(() => getSection("## 1.0.0\n", "1.0")).toThrow('no section "## 1.0"');
    expect(getSection(await readFile(join(ROOT, "CHANGELOG.md"), "utf8"), OWN)).toContain("## ");
  });

  it("is the same in every package and in the chart", async () => {
    const { packages } = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as {
      packages: Readonly<Record<string, { version?: string }>>;
    };
    const own = Object.entries(packages).filter(([place]) => !place.includes("node_modules/"));
    expect(own.filter(([, { version }]) => version !== OWN)).toEqual([]);
    const chart = await readFile(join(ROOT, "deploy/helm/muster/Chart.yaml"), "utf8");
    expect([...chart.matchAll(/^(?:appV|v)ersion: (.*)$/gm)].map(([, version]) => version)).toEqual([OWN, OWN]);
    const page = await readFile(join(ROOT, "docs/install.md"), "utf8");
    const named = [...page.matchAll(/muster-(?:[a-z]+-|<image>-)?(\d+\.\d+\.\d+)/g)].map(([, version]) => version);
    expect(named.length).toBeGreaterThan(10);
    expect(new Set(named)).toEqual(new Set([OWN]));
  });

  it.each([
    ["version: 0.1.0\nappVersion: 0.1.0\n", "version: 0.2.0\nappVersion: 0.2.0\n"],
    ["muster-0.1.0.tgz muster:0.1.0", "muster-0.2.0.tgz muster:0.2.0"],
    ["10.1.0 0.1.01 0.1.0.5 0x1y0", "10.1.0 0.1.01 0.1.0.5 0x1y0"],
  ])("replaces the earlier one in %j", (before, after) => {
    expect(replaceVersion(before, "0.1.0", "0.2.0")).toBe(after);
  });
});

describe("the command line", () => {
  const options = (...args: string[]) => readOptions(args, { SOURCE_DATE_EPOCH: "7" });

  it("takes a version and a registry", () => {
    expect(options(`${OWN}-rc.1`, "--registry", "localhost:5000/muster")).toMatchObject({
      version: `${OWN}-rc.1`,
      core: OWN,
      registry: "localhost:5000/muster",
      push: false,
      timeS: 7,
    });
  });

  it.each([
    [[], "VERSION is missing"],
    [["v2"], '"v2" is no version'],
    [[OWN, "2.0.0"], '"2.0.0" is one argument too many'],
    [[OWN], '--registry ""'],
    [[OWN, "--registry", "registry.example.com"], "a host and a path"],
    [[OWN, "--registry", "https://registry.example.com/muster"], "a host and a path"],
    [[OWN, "--registry", "registry.example.com/muster:1"], "a host and a path"],
    [
      [OWN, "--registry", "example.com/muster", "--sign-key", "/no/key"],
      '--sign-key "/no/key": the file does not exist',
    ],
    [[OWN, "--registry", "example.com/muster", "--output", ROOT], `--output "${ROOT}": the folder has other files`],
    [[OWN, "--tag", "x"], "--tag"],
  ])("refuses %j", (args, message) => {
    expect(() => options(...args)).toThrow(message);
  });

  it("names every wrong argument", () => {
    expect(() => options("2", "--registry", "x", "--sign-key", "/no")).toThrow(/"2" .*\n--registry "x".*\n--sign-key/);
  });

  it.each([
    [["--help"], 0, /^Usage: npm run release/, /^$/],
    [["2", "--registry", "x"], 2, /^$/, /^error: VERSION: "2" .*\nerror: --registry "x": .*\n\nUsage: /],
    [["--tag"], 2, /^$/, /^error: Unknown option '--tag'/],
  ])("answers %j with exit code %i and no stack trace", (args, code, stdout, stderr) => {
    const program = join(ROOT, "tools/repo/release/release.ts");
    const ended = spawnSync(process.execPath, [program, ...args], { encoding: "utf8" });
    expect(ended.status).toBe(code);
    expect(ended.stdout).toMatch(stdout);
    expect(ended.stderr).toMatch(stderr);
    expect(ended.stderr).not.toMatch(/^ +at /m);
  });
});

describe("licenses", () => {
  it.each([
    ["MIT", true],
    ["(MIT OR GPL-3.0-only)", true],
    ["MIT AND GPL-3.0-only", false],
    ["GPL-3.0-only OR (ISC AND Apache-2.0)", true],
    ["(ISC AND GPL-2.0-only) OR MPL-2.0", false],
    ["Apache-2.0 WITH LLVM-exception", false],
    ["MIT OR", false],
    ["(MIT", false],
    ["SEE LICENSE IN LICENSE", false],
    ["", false],
  ])("%s is allowed: %s", (expression, allowed) => {
    expect(isAllowed(expression)).toBe(allowed);
  });

  it("are checked and listed for each package, equal texts once", () => {
    const a = { name: "a", version: "1.0.0", license: "MIT", text: "Permission" };
    const b = { ...a, name: "b" };
    const c = { name: "c", version: "1.0.0", license: undefined, text: "" };
    expect(checkLicenses([a, { ...b, license: "GPL-3.0-only" }, c])).toEqual([
      expect.stringContaining("b@1.0.0 has the license GPL-3.0-only"),
      "c@1.0.0 states no license",
    ]);
    const text = buildLicenses([b, a]);
    expect(text).toContain("a 1.0.0 (MIT)\nb 1.0.0 (MIT)\n\nPermission");
    expect(text.split("Permission")).toHaveLength(2);
  });
});

describe("files of the release", () => {
  const digests = new Map([["watcher", "sha256:1"]]);

  it("name images of docker-compose.yml by digest, and build none", () => {
    const text =
      "  watcher:\n    image: muster/watcher:${MUSTER_TAG:-dev}\n    build: { args: { APP: watcher } }\n    a: b\n";
    expect(buildCompose(text, "r.example/m", digests)).toBe(
      "  watcher:\n    image: r.example/m/watcher@sha256:1\n    a: b\n",
    );
    expect(() => buildCompose(text.replaceAll("watcher", "gateway"), "r.example/m", digests)).toThrow(
      "the image gateway",
    );
  });

  it("have version, registry and digests in the chart, whose files must have these lines", () => {
    const files = [
      file("muster/Chart.yaml", "version: 1\nappVersion: 1\n"),
      file("muster/values.yaml", 'image:\n  repository: ""\n  digests: {}\n'),
    ];
    const release = { version: "2.0.0", repository: "r.example/m", digests };
    expect(buildChart(files, release).map(({ content }) => content.toString())).toEqual([
      "version: 2.0.0\nappVersion: 2.0.0\n",
      "image:\n  repository: r.example/m\n  digests:\n    watcher: sha256:1\n",
    ]);
    expect(() => buildChart([file("muster/values.yaml", "image: {}\n")], release)).toThrow(
      "muster/values.yaml has no line",
    );
  });

  it("have checksums in the form of sha256sum, sorted", () => {
    const sums = buildChecksums(new Map(["b", "a"].map((name) => [name, Buffer.from("")])));
    expect(sums).toMatch(/^e3b0c442[0-9a-f]{56} {2}a\ne3b0c442[0-9a-f]{56} {2}b\n$/);
  });

  it("have the configuration of the Dockerfile in their images, and refuse unknown instructions", async () => {
    const dockerfile = await readFile(join(ROOT, "Dockerfile"), "utf8");
    const stage = readStage(dockerfile);
    expect(stage).toMatchObject({
      WorkingDir: "/app",
      User: "node",
      Entrypoint: ["node", "/app/main.js"],
      Healthcheck: { Test: ["CMD", "node", "/app/health-check.ts"], Interval: 5e9, StartPeriod: 30e9, Retries: 6 },
    });
    expect(stage.Env).toContain("NODE_ENV=production");
    expect(stage.Env).toContain("NODE_OPTIONS=--expose-gc --max-semi-space-size=8");
    expect(readStage('FROM a\nENV A=1 B="2 3" C=\n').Env).toEqual(["A=1", "B=2 3", "C="]);
    expect(() => readStage("FROM a\nENV A='2 3'\n")).toThrow("do not support ENV A='2");
    expect(() => readStage(`${dockerfile}\nVOLUME /data\n`)).toThrow('do not support "VOLUME /data"');
    expect(() => readStage("FROM a\nHEALTHCHECK --start-interval=1s CMD []\n")).toThrow("--start-interval=1s");
  });
});
