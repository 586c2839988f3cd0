import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, mkdtempDisposable, readdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { buildSbom } from "../build-sbom.ts";
import { IMAGES, writeContents } from "../image-contents.ts";
import { buildSourceUrl } from "../images.ts";

const ROOT = join(import.meta.dirname, "../../..");

it("lists the innermost package of each bundled file once in the bill of materials, and nothing variable", () => {
  const packages = {
    "": { version: "1.0.0" },
    "libs/bus": { name: "@muster/bus", version: "1.0.0" },
    "node_modules/@scope/a": { version: "2.0.0", license: "MIT", integrity: "sha512-AAE=" },
    "node_modules/@scope/a/node_modules/b": { version: "3.0.0" },
    "node_modules/unused": { version: "4.0.0" },
  };
  const files = [
    "libs/bus/src/bus.ts",
    "libs/bus/src/serve.ts",
    "node_modules/@scope/a/index.js",
    "node_modules/@scope/a/node_modules/b/index.js",
    "schemas/job.schema.json",
  ];
  const sbom = buildSbom("watcher", files, { packages });
  expect(sbom).toEqual(buildSbom("watcher", files.toReversed(), { packages }));
  expect(sbom).toMatchObject({
    serialNumber: expect.stringMatching(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/,
    ) as string,
    components: [
      { purl: "pkg:npm/%40muster/bus@1.0.0" },
      {
        purl: "pkg:npm/%40scope/a@2.0.0",
        licenses: [{ expression: "MIT" }],
        hashes: [{ alg: "SHA-512", content: "0001" }],
      },
      { purl: "pkg:npm/b@3.0.0" },
    ],
  });
  expect(() => buildSbom("watcher", ["node_modules/c/index.js"], { packages })).toThrow("belongs to no package");
});

it("bundles the same sources into the same bytes, without a path of this machine", async () => {
  const image = IMAGES.find(({ name }) => name === "reservation-manager");
  if (image === undefined) throw new Error("no such image");
  const directories = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), "muster-image-"))));
  try {
    for (const directory of directories) await writeContents(directory, image);
    const [first, second] = await Promise.all(directories.map(contentsOf));
    expect(second).toEqual(first);
    const chunks = [...(first?.keys() ?? [])].filter((file) => file.startsWith("app/chunks/"));
    expect(chunks.some((file) => /node-sdk-.*\.js$/.test(file))).toBe(true);
    expect(chunks.some((file) => file.endsWith(".LEGAL.txt"))).toBe(true);
    expect([...(first?.keys() ?? [])].filter((file) => !chunks.includes(file)).sort()).toEqual([
      "app/health-check.ts",
      "app/main.js",
      "app/package.json",
      "usr/share/sbom/reservation-manager.cdx.json",
    ]);
    for (const text of first?.values() ?? []) expect(text).not.toContain(ROOT);
  } finally {
    await Promise.all(directories.map((directory) => rm(directory, { recursive: true })));
  }
});

it("contains the console in the image of the gateway, with its packages in the bill of materials", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-image-"));
  await writeContents(directory.path, { name: "gateway", entry: "apps/gateway/src/main.ts" });
  const read = (file: string) => readFile(join(directory.path, "gateway", file), "utf8");
  const page = await read("app/console/index.html");
  const assets = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map(([, path = ""]) => path);
  expect(assets.length).toBeGreaterThan(1);
  for (const asset of assets) expect((await read(join("app/console", asset))).includes(ROOT)).toBe(false);
  expect(await read("usr/share/sbom/gateway.cdx.json")).toMatch(/pkg:npm\/fastify@[^]*pkg:npm\/react-dom@/);
  expect(await readFile(join(ROOT, "Dockerfile"), "utf8")).toContain("GATEWAY_CONSOLE_DIR=/app/console ");
});

it("contains the dependencies of telemetry over gRPC", async () => {
  await using stack = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-image-"));
  stack.defer(() => rm(directory, { recursive: true }));
  await writeContents(directory, { name: "watcher", entry: "apps/watcher/src/main.ts" });
  const received: (string | undefined)[] = [];
  const collector = createServer().on("stream", (stream, headers) => {
    received.push(headers[":path"]);
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    // An empty message in a gRPC frame.
    stream.end(Buffer.alloc(5));
  });
  await once(collector.listen(0, "127.0.0.1"), "listening");
  stack.defer(() => void collector.close());
  const program = spawn(process.execPath, [join(directory, "watcher/app/main.js")], {
    stdio: "ignore",
    env: {
      MUSTER_NATS_URL: "nats://127.0.0.1:1",
      OTEL_METRICS_EXPORTER: "otlp",
      OTEL_METRIC_EXPORT_INTERVAL: "100",
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    },
  });
  stack.defer(() => void program.kill("SIGKILL"));
  const path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
  await until("metrics have arrived", () => received.includes(path), { timeoutMs: 120_000, everyMs: 50 });
});

async function contentsOf(directory: string): Promise<ReadonlyMap<string, string>> {
  const root = join(directory, "reservation-manager");
  const files = (await readdir(root, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  return new Map(
    await Promise.all(
      files.map(async ({ parentPath, name }) => {
        const file = join(parentPath, name);
        return [file.slice(root.length + 1), await readFile(file, "utf8")] as const;
      }),
    ),
  );
}

/** Files for browsers: the gateway serves them. */
const FILES = "console";

it("has an image for each app", async () => {
  const apps = await readdir(join(ROOT, "apps"));
  expect(IMAGES.map(({ name }) => name)).toEqual(expect.arrayContaining(apps.filter((app) => app !== FILES)));
});

it.each([
  ["https://example.org/group/muster.git", "https://example.org/group/muster"],
  ["https://reader:secret@example.org/muster", "https://example.org/muster"],
  ["git@example.org:group/muster.git", "https://example.org/group/muster"],
  ["ssh://git@example.org:2222/muster.git", "https://example.org/muster"],
  ["/srv/muster", "unknown"],
  ["file:///srv/muster", "unknown"],
  [undefined, "unknown"],
])("labels images of a clone of %s with %s", (origin, source) => {
  expect(buildSourceUrl(origin)).toBe(source);
});
