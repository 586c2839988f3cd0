import { expect, it } from "vitest";
import { buildTar, gzip, withFolders } from "../release/archive.ts";
import { readBasePackages } from "../release/read-base-packages.ts";

const RELEASE = "usr/lib/os-release";
const STATUS = "var/lib/dpkg/status";
const installed = (name: string, version: string): string =>
  `Package: ${name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: ${version}\n`;

function layer(files: Readonly<Record<string, string>>) {
  const entries = Object.entries(files).map(([path, text]) => ({ path, content: Buffer.from(text) }));
  return { content: gzip(buildTar(withFolders(entries), 0)), diffId: "sha256:0" };
}

function packagesOf(...layers: readonly ReturnType<typeof layer>[]): string[] {
  const base = { platform: { os: "linux", architecture: "amd64" }, env: ["NODE_VERSION=24.1.0"], layers };
  return readBasePackages([base]).map(({ purl }) => purl);
}

it("reads each file from the uppermost layer that has it", () => {
  const lower = layer({ [RELEASE]: 'ID=debian\nVERSION_ID="12"\n', [STATUS]: installed("libc6", "1") });
  const upper = layer({ [STATUS]: `${installed("libc6", "2")}\n${installed("curl", "8")}`, "etc/hosts": "" });
  expect(packagesOf(lower, upper, layer({ "app/main.js": "" }))).toEqual([
    "pkg:deb/debian/curl@8?arch=amd64&distro=debian-12",
    "pkg:deb/debian/libc6@2?arch=amd64&distro=debian-12",
    "pkg:generic/node@24.1.0",
  ]);
});

it("finds only Node in a base without dpkg", () => {
  expect(packagesOf(layer({ "app/main.js": "" }))).toEqual(["pkg:generic/node@24.1.0"]);
});
