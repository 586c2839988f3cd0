import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { makeDebianPackage } from "../src/debian-package.ts";
import { findNatsServer, type FindOptions } from "../src/find-nats-server.ts";
import { makeGoInstall } from "../src/go-install.ts";
import { makeReleaseDownload, type NatsRelease } from "../src/release-download.ts";
import type { ProgramSource } from "../src/source.ts";

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "muster-find-"));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await chmod(home, 0o700);
  await rm(home, { recursive: true, force: true });
});

/** A program that prints this version. */
async function program(path: string, version: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, script(version), { mode: 0o755 });
  return path;
}

function script(version: string): string {
  return `#!/bin/sh\necho "nats-server: v${version}"\n`;
}

function find(
  env: Record<string, string>,
  sources: readonly ProgramSource[] = [],
  options: Partial<FindOptions> = {},
): ReturnType<typeof findNatsServer> {
  return findNatsServer({ env: { HOME: home, ...env }, sources, ...options });
}

/** The time limit of the next search; the test calls `end` instead of waiting for it. */
function ownLimit(): { readonly end: () => void } {
  const limit = new AbortController();
  vi.spyOn(AbortSignal, "timeout").mockReturnValue(limit.signal);
  return { end: () => limit.abort(new DOMException("the limit", "TimeoutError")) };
}

/** A source that creates a program, and counts its calls. */
function making(version: string): ProgramSource & { asked: number } {
  const source = {
    name: `making ${version}`,
    takes: "a moment",
    asked: 0,
    fetch: async ({ directory }: { directory: string }) => {
      source.asked += 1;
      return program(join(directory, "deep", "fetched"), version);
    },
  };
  return source;
}

function failing(why: string): ProgramSource {
  return { name: "failing", takes: "for ever", fetch: () => Promise.reject(new Error(why)) };
}

/** A source that never answers, and records whether it was stopped. */
function hanging(name = "hanging"): ProgramSource & { aborted: boolean } {
  const source = {
    name,
    takes: "for ever",
    aborted: false,
    fetch: ({ signal }: { signal: AbortSignal }) =>
      new Promise<string>((_resolve, reject) => {
        const stop = (): void => {
          source.aborted = true;
          reject(signal.reason as Error);
        };
        if (signal.aborted) stop();
        else signal.addEventListener("abort", stop);
      }),
  };
  return source;
}

describe("an existing server", () => {
  it("is the named one before any other", async () => {
    const named = await program(join(home, "mine", "nats"), "2.12.1");
    await program(join(home, "path", "nats-server"), "2.15.2");
    expect(await find({ MUSTER_NATS_SERVER: named, PATH: join(home, "path") })).toEqual({
      path: named,
      version: "2.12.1",
      from: "MUSTER_NATS_SERVER",
    });
  });

  it("is not replaced by another when the named one cannot be used", async () => {
    await program(join(home, "path", "nats-server"), "2.15.2");
    const old = await program(join(home, "mine", "nats"), "2.9.10");
    const PATH = join(home, "path");
    await expect(find({ MUSTER_NATS_SERVER: old, PATH })).rejects.toThrow(`${old} is version 2.9.10`);
    await expect(find({ MUSTER_NATS_SERVER: join(home, "none"), PATH })).rejects.toThrow(/none does not run/);
  });

  it("is the first one on PATH that is new enough; the others are passed over, and reported", async () => {
    const old = await program(join(home, "old", "nats-server"), "2.9.10");
    await writeFile(join(home, "old", "other"), "");
    const good = await program(join(home, "good", "nats-server"), "2.11.0");
    await program(join(home, "late", "nats-server"), "2.15.2");
    const progress: string[] = [];
    const PATH = [
      "",
      "relative",
      join(home, "nowhere"),
      ...["old", "good", "late"].map((name) => join(home, name)),
    ].join(":");
    const found = await find({ PATH }, [], { onProgress: (line) => progress.push(line) });
    expect(found).toEqual({ path: good, version: "2.11.0", from: "PATH" });
    expect(progress).toEqual([`passing over ${old} is version 2.9.10`]);
  });

  it.each([
    ["in XDG_CACHE_HOME", { XDG_CACHE_HOME: "cache" }, "cache"],
    ["in .cache otherwise", {}, ".cache"],
  ])("is the one in the cache %s without one on PATH", async (_title, env, below) => {
    const cached = await program(join(home, below, "muster", "bin", "nats-server"), "2.15.2");
    const absolute = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, join(home, value)]));
    expect(await find({ PATH: "", ...absolute })).toEqual({ path: cached, version: "2.15.2", from: "cache" });
  });
});

describe("a server that is not there", () => {
  it("is fetched into the cache by the first way that works, and found there from then on", async () => {
    const source = making("2.15.2");
    const cached = join(home, ".cache", "muster", "bin", "nats-server");
    const first = await find({ PATH: "/usr/bin:/bin" }, [failing("no luck"), making("2.10.0"), source]);
    expect(first).toEqual({ path: cached, version: "2.15.2", from: "making 2.15.2" });
    const second = await find({ PATH: "/usr/bin:/bin" }, [source]);
    expect(second).toEqual({ path: cached, version: "2.15.2", from: "cache" });
    expect(source.asked).toBe(1);
    expect(await readdir(dirname(cached))).toEqual(["nats-server"]);
  });

  it("is fetched once by concurrent callers", async () => {
    const source = making("2.15.2");
    const found = await Promise.all(Array.from({ length: 8 }, () => find({ PATH: "/usr/bin:/bin" }, [source])));
    expect(source.asked).toBe(1);
    expect(new Set(found.map(({ path }) => path)).size).toBe(1);
  });

  it("is fetched although one who was fetching it has died, whose remains are removed", async () => {
    const directory = join(home, ".cache", "muster", "bin");
    await mkdir(join(directory, "nats-server-remains"), { recursive: true });
    await utimes(join(directory, "nats-server-remains"), 0, 0);
    const dead = execFileSync("/bin/sh", ["-c", "echo $$"], { encoding: "utf8" }).trim();
    await writeFile(join(directory, "nats-server.lock"), dead);
    await find({ PATH: "/usr/bin:/bin" }, [making("2.15.2")]);
    expect(await readdir(directory)).toEqual(["nats-server"]);
  });

  it("is fetched again when the one in the cache is broken or too old", async () => {
    const cached = await program(join(home, ".cache", "muster", "bin", "nats-server"), "2.10.0");
    expect((await find({ PATH: "/usr/bin:/bin" }, [making("2.15.1")])).version).toBe("2.15.1");
    await writeFile(cached, "not a program");
    expect((await find({ PATH: "/usr/bin:/bin" }, [making("2.15.2")])).version).toBe("2.15.2");
  });

  it("is an error that lists all attempts and the remedy", async () => {
    const old = await program(join(home, "old", "nats-server"), "2.9.10");
    const error: unknown = await find({ PATH: `${join(home, "old")}:/usr/bin:/bin` }, [
      failing("no luck"),
      making("1.0.0"),
    ]).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ fault: { code: "unavailable", dependency: "nats-server" } });
    for (const part of [`${old} is version 2.9.10`, "failing: no luck", "is version 1.0.0", "MUSTER_NATS_SERVER"])
      expect(String(error)).toContain(part);
  });

  it("is fetched by the next source in parallel when the previous one is slow, which is then aborted", async () => {
    const slow = hanging();
    const progress: string[] = [];
    const patience = { limitMs: 60_000, headStartMs: 20, progressIntervalMs: 60_000 };
    const options = { patience, onProgress: (line: string) => progress.push(line) };
    const found = await find({ PATH: "/usr/bin:/bin" }, [slow, making("2.15.2")], options);
    expect(found).toMatchObject({ version: "2.15.2", from: "making 2.15.2" });
    expect(slow.aborted).toBe(true);
    expect(progress).toEqual([
      "no nats-server of version 2.11.0 or later is on PATH or in the cache;",
      `one is fetched into ${dirname(found.path)}, which takes 60 s at most`,
      "fetching nats-server: hanging (takes for ever)",
      "fetching nats-server: making 2.15.2 (takes a moment)",
    ]);
  });

  it("is not waited for beyond one limit for all ways, and progress is reported until then", async () => {
    const progress: string[] = [];
    const patience = { limitMs: 400, headStartMs: 10, progressIntervalMs: 20 };
    const limit = ownLimit();
    const onProgress = (line: string): void => {
      progress.push(line);
      if (line.endsWith("hanging and second")) limit.end();
    };
    const options = { patience, onProgress };
    const failed = find({ PATH: "/usr/bin:/bin" }, [hanging(), failing("no luck"), hanging("second")], options);
    // Both of these end at the limit, in whichever order.
    await expect(failed).rejects.toThrow(
      /tried:\n {2}failing: no luck\n(?: {2}hanging: not done within 0 s\n {2}second: not done within 0 s| {2}second: not done within 0 s\n {2}hanging: not done within 0 s)\nwhat to do:/,
    );
    expect(progress).toContainEqual(expect.stringMatching(/^ {2}\d+ s: still at it: hanging and second$/));
  });

  it("is not waited for beyond the limit when another process fetches it, which is reported", async () => {
    const directory = join(home, ".cache", "muster", "bin");
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "nats-server.lock"), String(process.pid));
    const progress: string[] = [];
    const patience = { limitMs: 150, headStartMs: 10, progressIntervalMs: 60_000 };
    const limit = ownLimit();
    const onProgress = (line: string): void => {
      progress.push(line);
      if (line.startsWith("waiting")) limit.end();
    };
    const options = { patience, onProgress };
    const failed = find({ PATH: "/usr/bin:/bin" }, [making("2.15.2")], options);
    await expect(failed).rejects.toThrow("another process was fetching it for longer than");
    expect(progress).toContain("waiting for another process that fetches it");
  });

  it("is not awaited after the caller has given up", async () => {
    const caller = new AbortController();
    const waiting = find({ PATH: "/usr/bin:/bin" }, [hanging()], {
      signal: caller.signal,
      onProgress: (line) => {
        if (line.includes("hanging")) caller.abort();
      },
    });
    await expect(waiting).rejects.toMatchObject({ fault: { code: "cancelled" } });
    expect(await readdir(join(home, ".cache", "muster", "bin"))).toEqual([]);
  });
});

describe("the download of a release", () => {
  const target = `${process.platform}-${process.arch === "x64" ? "amd64" : process.arch}`;
  const name = `nats-server-v2.15.2-${target}`;

  /** Serves the archive of a release that holds a program. */
  async function serving(): Promise<{ release: NatsRelease; stop: () => Promise<unknown> }> {
    const content = join(home, "content");
    await program(join(content, name, "nats-server"), "2.15.2");
    execFileSync("tar", ["-czf", join(home, "archive.tar.gz"), "-C", content, name]);
    const archive = await readFile(join(home, "archive.tar.gz"));
    const server = createServer((request, response) => {
      const known = request.url === `/v2.15.2/${name}.tar.gz`;
      response.writeHead(known ? 200 : 404).end(known ? archive : "");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const sha256 = { [target]: createHash("sha256").update(archive).digest("hex") };
    return {
      release: { version: "2.15.2", url: `http://127.0.0.1:${port}/v2.15.2`, sha256 },
      stop: () => {
        server.close();
        server.closeAllConnections();
        return once(server, "close");
      },
    };
  }

  it("is used when its checksum is the pinned one, and only then", async () => {
    const { release, stop } = await serving();
    const env = { PATH: "/usr/bin:/bin" };
    const wrong = { ...release, sha256: { [target]: "0".repeat(64) } };
    await expect(find(env, [makeReleaseDownload(wrong)])).rejects.toThrow(
      `${name}.tar.gz has checksum ${release.sha256[target]}, not ${"0".repeat(64)}`,
    );
    await expect(find(env, [makeReleaseDownload({ ...release, sha256: {} })])).rejects.toThrow(
      `no checksum is pinned for ${target}`,
    );
    await expect(find(env, [makeReleaseDownload({ ...release, url: `${release.url}/no` })])).rejects.toThrow(
      /answered 404/,
    );
    const found = await find(env, [makeReleaseDownload(release)]);
    expect(found).toMatchObject({ version: "2.15.2", from: "download of release 2.15.2" });
    await stop();
  });

  it("reports that no server answers", async () => {
    const { release, stop } = await serving();
    await stop();
    await expect(find({ PATH: "/usr/bin:/bin" }, [makeReleaseDownload(release)])).rejects.toThrow(/ECONNREFUSED/);
  });
});

describe("go install", () => {
  it("reports that go is missing, and the output of a go that fails", async () => {
    await expect(find({ PATH: "/bin" }, [makeGoInstall()])).rejects.toThrow("go is not on PATH");
    const go = await program(join(home, "go", "go"), "");
    await writeFile(go, "#!/bin/sh\necho no such module >&2\nexit 1\n");
    await expect(find({ PATH: `${dirname(go)}:/bin` }, [makeGoInstall()])).rejects.toThrow("no such module");
  });

  const go = onPath("go");
  it.skipIf(go === undefined)(
    `builds a server${go === undefined ? " (skipped: go is not on PATH)" : ""}`,
    { timeout: 320_000 },
    async () => {
      const { GOPATH, GOCACHE } = JSON.parse(
        execFileSync("go", ["env", "-json", "GOPATH", "GOCACHE"], { encoding: "utf8" }),
      ) as Record<string, string>;
      const env = {
        ...inherited(),
        PATH: `${dirname(go ?? "")}:/usr/bin:/bin`,
        GOPATH: GOPATH ?? "",
        GOCACHE: GOCACHE ?? "",
      };
      expect(await find(env, [makeGoInstall()])).toMatchObject({ version: "2.15.2" });
    },
  );
});

describe("the Debian package", () => {
  const skipped =
    onPath("apt-get") === undefined
      ? " (skipped: there is no apt-get)"
      : process.env["CI"] === "true" || process.env["MUSTER_TEST_FETCH"] === "1"
        ? ""
        : " (skipped: it needs a Debian mirror; MUSTER_TEST_FETCH=1 runs it)";
  it("reports that apt-get is missing", async () => {
    await expect(find({ PATH: home }, [makeDebianPackage()])).rejects.toThrow("apt-get is not on PATH");
  });

  it.skipIf(skipped !== "")(`is unpacked without being installed${skipped}`, { timeout: 320_000 }, async () => {
    const found = await find({ ...inherited(), PATH: "/usr/bin:/bin" }, [makeDebianPackage()]);
    expect(found.from).toBe("Debian package");
    expect(found.path.startsWith(home)).toBe(true);
  });
});

/** The variables with which this machine reaches its mirrors. */
function inherited(): Record<string, string> {
  const names = Object.keys(process.env).filter((name) => /proxy|^GO|^SSL/i.test(name));
  return Object.fromEntries(names.map((name) => [name, process.env[name] ?? ""]));
}

function onPath(name: string): string | undefined {
  try {
    return execFileSync("/bin/sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
  } catch {
    return undefined;
  }
}
