/** The part of an image's configuration that a Dockerfile sets, in the field names of the OCI and Docker formats. */
export type StageConfig = {
  readonly Env: readonly string[];
  readonly WorkingDir: string;
  readonly User: string;
  readonly Entrypoint: readonly string[];
  readonly Healthcheck: Readonly<Record<string, number | readonly string[]>>;
};

const NS_PER_S = 1e9;
const HEALTH_OPTIONS: Readonly<Record<string, string>> = {
  interval: "Interval",
  timeout: "Timeout",
  "start-period": "StartPeriod",
  retries: "Retries",
};

/** Reads the last stage of the Dockerfile. Throws for an instruction or option that it does not know, because images of a release would lack it. */
export function readStage(dockerfile: string): StageConfig {
  const lines = dockerfile
    .replaceAll(/^\s*#.*\n/gm, "")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")) + 1);
  const valuesOf = (name: string): string[] =>
    last.filter((line) => line.startsWith(`${name} `)).map((line) => line.slice(name.length + 1));
  const known = ["ARG", "ENV", "WORKDIR", "COPY", "USER", "HEALTHCHECK", "ENTRYPOINT", "LABEL"];
  const unknown = last.find((line) => !known.includes(line.split(" ", 1)[0] ?? ""));
  if (unknown !== undefined) throw new Error(`Dockerfile: images of a release do not support "${unknown}"`);
  return {
    Env: valuesOf("ENV").flatMap(readVariables),
    WorkingDir: valuesOf("WORKDIR").at(-1) ?? "/",
    User: valuesOf("USER").at(-1) ?? "",
    Entrypoint: JSON.parse(valuesOf("ENTRYPOINT").at(-1) ?? "[]") as string[],
    Healthcheck: readHealthCheck(valuesOf("HEALTHCHECK").at(-1) ?? ""),
  };
}

/** Reads `NAME=value OTHER="a value with spaces"`. */
function readVariables(line: string): string[] {
  return [...line.matchAll(/(\w+)=(?:"([^"\\]*)"|([^\s"'\\]*))(?=\s|$)|(\S+)/g)].map(
    ([text, name, quoted, plain, other]) => {
      if (other !== undefined) throw new Error(`Dockerfile: images of a release do not support ENV ${text}`);
      return `${name}=${quoted ?? plain}`;
    },
  );
}

function readHealthCheck(line: string): StageConfig["Healthcheck"] {
  const [options = "", command = "[]"] = line.split(/CMD (.*)/s);
  const numbers = [...options.matchAll(/--([a-z-]+)=(\d+)(s?)/g)].map(([option, name = "", amount = "", unit = ""]) => {
    const field = HEALTH_OPTIONS[name];
    if (field === undefined) throw new Error(`Dockerfile: images of a release do not support HEALTHCHECK ${option}`);
    return [field, Number(amount) * (unit === "s" ? NS_PER_S : 1)] as const;
  });
  return { Test: ["CMD", ...(JSON.parse(command) as string[])], ...Object.fromEntries(numbers) };
}
