import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { buildProcessEnv } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { IMAGES } from "../image-contents.ts";
import { computeDigest } from "../release/build-layout.ts";
import { makeRelease, type ReleaseOptions } from "../release/make-release.ts";
import { pushImages } from "../release/push-images.ts";
import { startRegistry } from "./a-registry.ts";
import { startDistribution, describeMissingDistribution } from "./distribution.ts";
import { readImages } from "./read-images.ts";
import { writeBase } from "./release-base.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../../..");
const { version: OWN } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { version: string };
const VERSION = `${OWN}-test.1`;
const REGISTRY = "registry.example.com/muster";
const TIMEOUT_MS = 900_000;
const SOURCES = {
  version: VERSION,
  core: OWN,
  timeS: 1_700_000_000,
  revision: "0".repeat(40),
  source: "https://example.com/muster",
};
/** The environment of a user's shell, without variables of this test and of npm. */
const env = { ...buildProcessEnv(), PATH: process.env["PATH"] };

const missing = spawnSync("helm", ["version"]).status === 0 ? undefined : "helm is not on the PATH";
if (missing !== undefined && process.env["CI"] === "true") throw new Error(missing);
const engine = spawnSync("docker", ["image", "inspect", "node:24-bookworm-slim"]);
const noEngine = engine.status === 0 ? undefined : "no Docker engine with node:24-bookworm-slim answers";
const noDistribution = describeMissingDistribution();
const reason = (text: string | undefined): string => (text === undefined ? "" : ` (skipped: ${text})`);

let directory: string;
let options: ReleaseOptions;
let digests: ReadonlyMap<string, string>;
const fileOf = (name: string): string => join(options.output, name);
const unpack = async (archive: string): Promise<string> => {
  const folder = await mkdtemp(join(directory, "unpacked-"));
  await run("tar", ["-xf", fileOf(archive), "-C", folder]);
  return folder;
};

describe.skipIf(missing !== undefined)(`the artifacts of a release${reason(missing)}`, { timeout: TIMEOUT_MS }, () => {
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "muster-release-"));
    const signKey = join(directory, "key");
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", signKey]);
    const base = await writeBase(join(directory, "base"));
    const output = join(directory, "first");
    options = {
      ...SOURCES,
      registry: REGISTRY,
      base,
      output,
      push: false,
      dockerConfig: join(directory, "docker"),
      signKey,
    };
    await makeRelease(options);
    const lines = (await readFile(fileOf(`muster-images-${VERSION}.txt`), "utf8")).trim().split("\n");
    digests = new Map(lines.map((line) => /\/([a-z-]+)@(.*)$/.exec(line)?.slice(1) as [string, string]));
  }, TIMEOUT_MS);
  afterAll(() => rm(directory, { recursive: true, force: true }));

  it("have the same bytes when they are rebuilt", async () => {
    const output = join(directory, "second");
    await makeRelease({ ...options, output });
    const contentsOf = async (folder: string) =>
      Promise.all(
        (await readdir(folder))
          .toSorted()
          .map(async (name) => [name, computeDigest(await readFile(join(folder, name)))]),
      );
    expect(await contentsOf(output)).toEqual(await contentsOf(options.output));
  });

  it("have checksums and a signature that common tools verify", async () => {
    const listed = (await readFile(fileOf("SHA256SUMS"), "utf8")).match(/\S+$/gm);
    const files = await readdir(options.output);
    expect(listed).toEqual(files.filter((name) => !name.startsWith("SHA256SUMS")).toSorted());
    await run("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: options.output });
    const signers = join(directory, "allowed_signers");
    await writeFile(signers, `releases@example.com ${await readFile(`${options.signKey ?? ""}.pub`, "utf8")}`);
    const verify = (text: string) => {
      const args = [
        "-Y",
        "verify",
        "-f",
        signers,
        "-I",
        "releases@example.com",
        "-n",
        "file",
        "-s",
        fileOf("SHA256SUMS.sig"),
      ];
      return spawnSync("ssh-keygen", args, { input: text }).status;
    };
    const sums = await readFile(fileOf("SHA256SUMS"), "utf8");
    expect([verify(sums), verify(`${sums} `)]).toEqual([0, 255]);
  });

  it("install the command into an empty home, with its version, manual, completion and licenses", async () => {
    const home = join(directory, "home");
    await mkdir(home);
    const flags = ["--global", "--offline", "--no-audit", "--no-fund", "--prefix", home];
    await run("npm", ["install", ...flags, fileOf(`muster-cli-${VERSION}.tgz`)], { env: { ...env, HOME: home } });
    const bin = join(home, "bin/muster");
    const { stdout } = await run(bin, ["version", "--client", "-o", "json"], { env: { ...env, HOME: home } });
    expect(JSON.parse(stdout)).toEqual({ muster: VERSION, node: process.versions.node });
    const manual = await readFile(join(home, "share/man/man1/muster.1"), "utf8");
    expect(manual).toContain(`.TH MUSTER 1 "" "muster ${VERSION}" "Muster"`);
    expect(manual).toMatch(/^\.SS muster dead\\-letters replay$/m);
    const installed = join(home, "lib/node_modules/@muster/cli");
    const { stdout: bash } = await run(bin, ["completion", "bash"], { env: { ...env, HOME: home } });
    expect(await readFile(join(installed, "completion/muster.bash"), "utf8")).toBe(bash);
    for (const name of ["LICENSE", "NOTICE", "THIRD-PARTY-LICENSES.txt"])
      expect(existsSync(join(installed, name))).toBe(true);
  });

  it("have an image for each program, whose digests name all of its contents on both platforms", async () => {
    const layout = await unpack(`muster-images-${VERSION}.tar`);
    const read = async (digest: string): Promise<Buffer> => {
      const content = await readFile(join(layout, "blobs", digest.replace(":", "/")));
      expect(computeDigest(content)).toBe(digest);
      return content;
    };
    const json = async <Value>(digest: string) => JSON.parse((await read(digest)).toString()) as Value;
    const { manifests } = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as Index;
    const named = (key: string): [string, string][] =>
      manifests.flatMap(({ digest, annotations }) =>
        annotations?.[key] === undefined ? [] : [[annotations[key], digest]],
      );
    expect(new Map(named("org.opencontainers.image.ref.name"))).toEqual(digests);
    const forContainerd = [...digests].flatMap(([name, digest]) => [
      [`${REGISTRY}/${name}:${VERSION}`, digest],
      // The name in the pods of the chart: nodes without a registry have it after the import.
      [`${REGISTRY}/${name}@${digest}`, digest],
    ]);
    expect(named("io.containerd.image.name")).toEqual(forContainerd);
    expect([...digests.keys()]).toEqual(IMAGES.map(({ name }) => name));
    for (const [name, digest] of digests) {
      const { manifests: platforms } = await json<Index>(digest);
      expect(platforms.map(({ platform }) => platform?.architecture)).toEqual(["amd64", "arm64"]);
      for (const platform of platforms) {
        const { config, layers } = await json<Manifest>(platform.digest);
        for (const layer of layers) await read(layer.digest);
        expect(await json(config.digest)).toMatchObject({
          architecture: platform.platform?.architecture,
          config: {
            User: "node",
            Entrypoint: ["node", "/app/main.js"],
            Labels: { "org.opencontainers.image.title": `muster/${name}`, "org.opencontainers.image.version": VERSION },
          },
        });
      }
    }
  });

  it("have a chart and manifests with version and digests, and no other image than that of NATS", async () => {
    const lint = await run("helm", ["lint", "--strict", fileOf(`muster-${VERSION}.tgz`)]);
    expect(lint.stdout).toContain("0 chart(s) failed");
    const imagesOf = (text: string) =>
      [...text.matchAll(/^\s+image: (\S+)$/gm)].map(([, image = ""]) => image).toSorted();
    const manifests = await readFile(fileOf(`muster-${VERSION}.yaml`), "utf8");
    const { stdout } = await run("helm", [
      "template",
      "muster",
      fileOf(`muster-${VERSION}.tgz`),
      "--namespace",
      "muster-system",
      "--set",
      "image.repository=own.example.com/m",
    ]);
    const services = [
      "gateway",
      "job-controller",
      "replication-farm",
      "reservation-manager",
      "session-controller",
      "watcher",
    ];
    const expected = (registry: string) =>
      [...services, "watcher"]
        .map((name) => `${registry}/${name}@${digests.get(name) ?? ""}`)
        .concat("nats:2.15-alpine");
    expect(imagesOf(manifests)).toEqual(expected(REGISTRY).toSorted());
    expect(imagesOf(stdout).filter((image) => !image.includes("/cli@"))).toEqual(
      expected("own.example.com/m").toSorted(),
    );
    const objects = parseAllDocuments(manifests).map((document) => document.toJS() as Manifested | null);
    expect(objects[0]).toMatchObject({ kind: "Namespace", metadata: { name: "muster-system" } });
    const found = objects.filter((object) => object !== null);
    const definitions = found.filter(({ kind }) => kind === "CustomResourceDefinition");
    expect(definitions.map(({ metadata }) => metadata.annotations?.["muster.dev/version"])).toEqual([VERSION, VERSION]);
    const deployments = found.filter(({ kind }) => kind === "Deployment");
    expect(deployments.map(({ metadata }) => metadata.labels?.["app.kubernetes.io/version"])).toEqual(
      services.map(() => VERSION),
    );
  });

  it("have a Compose folder with images by digest and every file that it mounts", async () => {
    const folder = join(await unpack(`muster-compose-${VERSION}.tgz`), `muster-compose-${VERSION}`);
    const text = await readFile(join(folder, "docker-compose.yml"), "utf8");
    const { services } = parse(text, { merge: true }) as { services: Readonly<Record<string, ComposeService>> };
    const own = Object.values(services).filter(({ image }) => image.startsWith(REGISTRY));
    expect(own.map(({ image }) => image).toSorted()).toEqual(
      [...digests]
        .filter(([name]) => name !== "cli")
        .map(([name, digest]) => `${REGISTRY}/${name}@${digest}`)
        .toSorted(),
    );
    expect(text).not.toMatch(/\bbuild:|:dev\b/);
    const mounted = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.filter((volume) => volume.startsWith("./")),
    );
    const files = mounted.map((volume) => volume.split(":")[0] ?? "");
    expect(files.length).toBeGreaterThan(4);
    expect(files.filter((file) => !existsSync(join(folder, file)))).toEqual([]);
  });

  it("list each package of each bill of materials with its license", async () => {
    const licenses = await readFile(fileOf("THIRD-PARTY-LICENSES.txt"), "utf8");
    const bills = (await readdir(options.output)).filter((name) => name.endsWith(".cdx.json"));
    expect(bills).toHaveLength(IMAGES.length + 1);
    for (const bill of bills) {
      const { metadata, components } = JSON.parse(await readFile(fileOf(bill), "utf8")) as Bill;
      expect(metadata.component.version).toBe(VERSION);
      const foreign = components.filter(
        ({ name, purl }) => purl.startsWith("pkg:npm/") && !name.startsWith("@muster/"),
      );
      const unlisted = foreign.filter(({ name, version }) => !licenses.includes(`\n${name} ${version} (`));
      expect(unlisted).toEqual([]);
    }
  });

  it("list the packages of the base in the bill of each image, but not of the command", async () => {
    const purlsOf = async (name: string): Promise<readonly string[]> => {
      const bill = JSON.parse(await readFile(fileOf(`muster-${name}-${VERSION}.cdx.json`), "utf8")) as Bill;
      return bill.components.map(({ purl }) => purl).filter((purl) => !purl.startsWith("pkg:npm/"));
    };
    const base = ["pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12", "pkg:generic/node@24.1.0"];
    for (const { name } of IMAGES) expect(await purlsOf(name), name).toEqual(base);
    expect(await purlsOf("command")).toEqual([]);
  });

  it("are pushed to a registry with a login, by digest and version, and only missing contents", async () => {
    await using registry = await startRegistry();
    const { dockerConfig } = options;
    await mkdir(dockerConfig);
    const images = await readImages(await unpack(`muster-images-${VERSION}.tar`));
    await expect(pushImages(images, `${registry.host}/muster`, VERSION, dockerConfig)).rejects.toThrow(
      `docker login ${registry.host}`,
    );
    await writeFile(join(dockerConfig, "config.json"), registry.dockerConfig);
    await pushImages(images, `${registry.host}/muster`, VERSION, dockerConfig);
    for (const [name, digest] of digests) {
      const byVersion = registry.manifests.get(`muster/${name}@${VERSION}`);
      expect(computeDigest(byVersion?.content ?? Buffer.alloc(0))).toBe(digest);
    }
    const uploads = registry.uploads();
    await pushImages(images, `${registry.host}/muster`, VERSION, dockerConfig);
    expect(registry.uploads()).toBe(uploads);
  });

  it.skipIf(noDistribution !== undefined)(
    `go to the registry of the CNCF, which has them by digest and version${reason(noDistribution)}`,
    async () => {
      const folder = await mkdtemp(join(directory, "distribution-"));
      await using registry = await startDistribution(folder);
      const images = await readImages(await unpack(`muster-images-${VERSION}.tar`));
      const place = `${registry.host}/team/muster`;
      await expect(pushImages(images, place, VERSION, folder)).rejects.toThrow(`docker login ${registry.host}`);
      await writeFile(join(folder, "config.json"), registry.dockerConfig);
      await pushImages(images, place, VERSION, folder);
      for (const [name, digest] of digests)
        for (const reference of [VERSION, digest]) {
          const { status, content } = await registry.manifest(`team/muster/${name}`, reference);
          expect({ name, reference, status, digest: computeDigest(content) }).toEqual({
            name,
            reference,
            status: 200,
            digest,
          });
        }
    },
  );
});

describe.skipIf(missing !== undefined || noEngine !== undefined)(
  `the images of a release in an engine${reason(missing ?? noEngine)}`,
  { timeout: TIMEOUT_MS },
  () => {
    it("are pulled by digest, and the command runs", async () => {
      await using registry = await startRegistry();
      directory = await mkdtemp(join(tmpdir(), "muster-release-"));
      await writeFile(join(directory, "config.json"), registry.dockerConfig);
      const [base, output] = ["node:24-bookworm-slim", join(directory, "output")];
      const place = {
        registry: `${registry.host}/muster`,
        base,
        output,
        push: true,
        dockerConfig: directory,
        signKey: undefined,
      };
      await makeRelease({ ...SOURCES, ...place });
      const images = await readFile(join(output, `muster-images-${VERSION}.txt`), "utf8");
      const image = /^\S+\/cli@\S+$/m.exec(images)?.[0] ?? "";
      try {
        const { stdout } = await run("docker", [
          "--config",
          directory,
          "run",
          "--rm",
          "--network",
          "none",
          image,
          "version",
          "--client",
        ]);
        expect(stdout).toContain(`muster ${VERSION}\n`);
      } finally {
        spawnSync("docker", ["image", "rm", "--force", image]);
        await rm(directory, { recursive: true, force: true });
      }
    });
  },
);

type Descriptor = {
  readonly digest: string;
  readonly platform?: { readonly architecture: string };
  readonly annotations?: Readonly<Record<string, string>>;
};
type Index = { readonly manifests: readonly Descriptor[] };
type Manifest = { readonly config: Descriptor; readonly layers: readonly Descriptor[] };
type Manifested = {
  readonly kind: string;
  readonly metadata: {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
};
type ComposeService = { readonly image: string; readonly volumes?: readonly string[] };
type Bill = {
  readonly metadata: { readonly component: { readonly version: string } };
  readonly components: readonly { readonly name: string; readonly version: string; readonly purl: string }[];
};
