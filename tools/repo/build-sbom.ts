import { createHash } from "node:crypto";

/** The entry of one package in package-lock.json. */
export type LockedPackage = {
  readonly name?: string;
  readonly version?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly link?: boolean;
};
export type Lock = { readonly packages: Readonly<Record<string, LockedPackage>> };

/** A document of CycloneDX 1.5. */
export type Sbom = {
  readonly bomFormat: "CycloneDX";
  readonly specVersion: "1.5";
  readonly serialNumber: string;
  readonly version: 1;
  readonly metadata: {
    readonly component: {
      readonly type: string;
      readonly name: string;
      readonly version: string;
      readonly "bom-ref": string;
    };
  };
  readonly components: readonly object[];
};

/**
 * Builds the CycloneDX 1.5 document of a bundle, with the packages of its files. It has no time and no random number, so the same bundle gives the same text.
 * Throws when a file belongs to no package.
 */
export function buildSbom(image: string, files: readonly string[], lock: Lock, version?: string): Sbom {
  const own = version ?? lock.packages[""]?.version ?? "";
  const components = listPlaces(files, lock).map((place) => component(place, lock.packages[place] ?? {}));
  return buildDocument(image, own, components);
}

/** Adds components to a document of `buildSbom`, which becomes a document of its own. */
export function extendSbom(bill: Sbom, more: readonly object[]): Sbom {
  const { version, "bom-ref": image } = bill.metadata.component;
  return buildDocument(image, version, [...bill.components, ...more]);
}

function buildDocument(image: string, version: string, components: readonly object[]): Sbom {
  const digest = createHash("sha256")
    .update(JSON.stringify([image, components]))
    .digest("hex");
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    serialNumber: `urn:uuid:${computeUuid(digest)}`,
    version: 1,
    metadata: {
      component: { type: "application", name: `muster/${image}`, version, "bom-ref": image },
    },
    components,
  };
}

/** The packages of the files, as paths of the lock file. */
export function listPlaces(files: readonly string[], lock: Lock): string[] {
  return [...new Set(files.flatMap((file) => findPlace(file, lock)))].sort();
}

/** The name of the package at a path of the lock file. */
export function getName(place: string, { name }: LockedPackage): string {
  return name ?? place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
}

/** The innermost package of the file; empty for files of the repository itself. */
function findPlace(file: string, { packages }: Lock): string[] {
  const parts = file.split("/");
  for (let length = parts.length - 1; length > 0; length -= 1) {
    const place = parts.slice(0, length).join("/");
    if (packages[place] !== undefined) return [place];
  }
  if (parts.includes("node_modules")) throw new Error(`${file} belongs to no package of the lock file`);
  return [];
}

function component(place: string, locked: LockedPackage): object {
  const { version = "", integrity, license } = locked;
  const name = getName(place, locked);
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  return {
    type: "library",
    name,
    version,
    "bom-ref": place,
    purl,
    ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
    ...(integrity === undefined ? {} : { hashes: parseHashes(integrity) }),
  };
}

/** Converts `sha512-<base64>` of npm into hashes of CycloneDX. */
function parseHashes(integrity: string): object[] {
  return integrity.split(" ").map((text) => {
    const [algorithm = "", content = ""] = text.split(/-(.*)/s);
    return { alg: algorithm.replace("sha", "SHA-"), content: Buffer.from(content, "base64").toString("hex") };
  });
}

/** A UUID of version 8 (RFC 9562) from the first bits of a hash. */
function computeUuid(digest: string): string {
  const [a, b, c, d, e] = [0, 8, 13, 17, 20].map((from, index) =>
    digest.slice(from, from + ([8, 4, 3, 3, 12][index] ?? 0)),
  );
  return `${a ?? ""}-${b ?? ""}-8${c ?? ""}-8${d ?? ""}-${e ?? ""}`;
}
