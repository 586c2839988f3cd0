const SEMANTIC = /^(?<core>(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*))(?<pre>-[0-9A-Za-z]+(?:[.-][0-9A-Za-z]+)*)?$/;

export type VersionVerdict =
  { readonly kind: "accepted"; readonly core: string } | { readonly kind: "refused"; readonly because: string };

/** Accepts the version of package.json and pre-releases of it, such as `1.2.0-rc.1` of 1.2.0. `core` names the section of the changelog. */
export function decideVersion(version: string, own: string): VersionVerdict {
  const { core } = SEMANTIC.exec(version)?.groups ?? {};
  if (core === undefined)
    return { kind: "refused", because: `"${version}" is no version: use three numbers, such as ${own} or ${own}-rc.1` };
  if (core === own) return { kind: "accepted", core };
  const because = `package.json has the version ${own}: release ${own} or a pre-release of it, such as ${own}-rc.1, or set the version (docs/releasing.md)`;
  return { kind: "refused", because };
}

/** The text below the heading of a version in CHANGELOG.md. Throws when the version has none. */
export function getSection(changelog: string, version: string): string {
  const sections = changelog.split(/^## /m).slice(1);
  const section = sections.find((text) => text.split("\n", 1)[0]?.trim().split(" ")[0] === version);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section "## ${version}"`);
  return `## ${section.trimEnd()}\n`;
}
