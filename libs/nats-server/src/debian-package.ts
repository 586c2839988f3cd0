import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { planDebianSource, type AptFile } from "./plan-debian-source.ts";
import { findOnPath, isExecutable, runProgram, type ProgramSource, type SourceContext } from "./source.ts";

/** Suites that package a version new enough, on the mirror that the host already uses. */
const SUITES = ["sid", "forky"];
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** Unpacks the Debian package without installing it: apt uses a separate directory and needs no rights. apt verifies the signature. */
export function makeDebianPackage(): ProgramSource {
  return {
    name: "Debian package",
    takes: "half a minute",
    fetch: async (context) => {
      for (const tool of ["apt-get", "dpkg"])
        if ((await findOnPath(tool, context.env)).length === 0) throw new Error(`${tool} is not on PATH`);
      const mirror = planDebianSource(await readText("/etc/os-release"), await aptFiles());
      if (mirror === undefined) throw new Error("this is no Debian with a mirror of its own");
      const failures: string[] = [];
      for (const suite of SUITES) {
        try {
          return await unpack(context, mirror, suite);
        } catch (error) {
          context.signal.throwIfAborted();
          failures.push(`${suite}: ${error instanceof Error ? error.message : String(error)}`);
        }
      }
      throw new Error(failures.join("; "));
    },
  };
}

async function unpack({ directory, env, signal }: SourceContext, mirror: string, suite: string): Promise<string> {
  const root = join(directory, suite);
  for (const name of ["state/lists/partial", "cache/archives/partial", "download", "unpacked", "parts"])
    await mkdir(join(root, name), { recursive: true });
  const status = join(root, "status");
  await writeFile(status, "");
  const list = join(root, "sources.list");
  await writeFile(list, `deb [signed-by=${KEYRING}] ${mirror} ${suite} main\n`);
  const settings = {
    "Dir::State": join(root, "state"),
    "Dir::State::status": status,
    "Dir::Cache": join(root, "cache"),
    "Dir::Etc::sourcelist": list,
    "Dir::Etc::sourceparts": join(root, "parts"),
    "Acquire::Languages": "none",
    // Root would drop to a user who cannot write here.
    "APT::Sandbox::User": "root",
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  const download = join(root, "download");
  await runProgram("apt-get", [...options, "update"], { env, signal });
  await runProgram("apt-get", [...options, "download", "nats-server"], { env, signal, cwd: download });
  const [archive] = await readdir(download);
  if (archive === undefined) throw new Error("apt-get downloaded nothing");
  await runProgram("dpkg", ["-x", join(download, archive), join(root, "unpacked")], { env, signal });
  for (const place of ["usr/sbin", "usr/bin"]) {
    const path = join(root, "unpacked", place, "nats-server");
    if (await isExecutable(path)) return path;
  }
  throw new Error(`${archive} holds no nats-server`);
}

async function aptFiles(): Promise<AptFile[]> {
  const parts = "/etc/apt/sources.list.d";
  const names = await readdir(parts).catch((): string[] => []);
  const paths = ["/etc/apt/sources.list", ...names.sort().map((name) => join(parts, name))];
  return Promise.all(paths.map(async (name) => ({ name, text: await readText(name) })));
}

function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch(() => "");
}
