export type AptFile = { readonly name: string; readonly text: string };

type AptEntry = { readonly uri: string; readonly suites: readonly string[]; readonly components: readonly string[] };

/**
 * Returns the mirror that a Debian host uses for its own release, from `/etc/os-release` and apt's lists of sources; undefined on another system or without a
 * mirror.
 */
export function planDebianSource(osRelease: string, files: readonly AptFile[]): string | undefined {
  if (!/^ID=debian$/m.test(osRelease)) return undefined;
  const codename = /^VERSION_CODENAME=(\S+)$/m.exec(osRelease)?.[1];
  const entries = files.flatMap(({ name, text }) => (name.endsWith(".sources") ? stanzas(text) : lines(text)));
  const own = entries.find(
    ({ uri, suites, components }) =>
      /^https?:\/\//.test(uri) &&
      components.includes("main") &&
      suites.some((suite) => suite === codename || suite === "stable" || suite === "testing" || suite === "sid"),
  );
  return own?.uri;
}

/** `deb [options] uri suite component…` */
function lines(text: string): AptEntry[] {
  return text.split("\n").flatMap((line) => {
    const match = /^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)$/.exec(line);
    const [, uri, suite, components] = match ?? [];
    return uri === undefined || suite === undefined ? [] : [{ uri, suites: [suite], components: words(components) }];
  });
}

/** Paragraphs of `Field: values`. */
function stanzas(text: string): AptEntry[] {
  return text.split(/\n\s*\n/).flatMap((paragraph) => {
    const field = (name: string): string[] => words(new RegExp(`^${name}:(.*)$`, "im").exec(paragraph)?.[1]);
    if (!field("Types").includes("deb")) return [];
    return field("URIs").map((uri) => ({ uri, suites: field("Suites"), components: field("Components") }));
  });
}

function words(text = ""): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}
