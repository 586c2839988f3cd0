import { describe, expect, it } from "vitest";
import { planDebianSource } from "./plan-debian-source.ts";

const BOOKWORM = 'NAME="Debian GNU/Linux"\nID=debian\nVERSION_CODENAME=bookworm\n';

describe("finding a Debian host's own mirror", () => {
  it.each<[string, string, { name: string; text: string }[], string | undefined]>([
    [
      "reads the form with fields",
      BOOKWORM,
      [
        {
          name: "debian.sources",
          text: "Types: deb\n# comment\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\n",
        },
      ],
      "http://mirror.example/debian",
    ],
    [
      "reads the form with lines, options and all",
      BOOKWORM,
      [
        {
          name: "sources.list",
          text: "# deb http://off.example/debian bookworm main\ndeb [arch=amd64] http://mirror.example/debian bookworm main contrib\n",
        },
      ],
      "http://mirror.example/debian",
    ],
    [
      "passes over what others add, security and sources",
      BOOKWORM,
      [
        {
          name: "a.list",
          text: "deb https://others.example/apt cloud main\ndeb-src http://mirror.example/src bookworm main\n",
        },
        {
          name: "b.sources",
          text: "Types: deb\nURIs: http://mirror.example/security\nSuites: bookworm-security\nComponents: main\n\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n",
        },
      ],
      "http://mirror.example/debian",
    ],
    [
      "finds none that is not reached over HTTP",
      BOOKWORM,
      [{ name: "a.list", text: "deb file:/srv/debian bookworm main" }],
      undefined,
    ],
    ["finds none without sources", BOOKWORM, [], undefined],
    [
      "finds none on another system",
      "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n",
      [{ name: "a.list", text: "deb http://x noble main" }],
      undefined,
    ],
  ])("%s", (_title, osRelease, files, expected) => {
    expect(planDebianSource(osRelease, files)).toBe(expected);
  });
});
