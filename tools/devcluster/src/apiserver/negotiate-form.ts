/** The forms in which the server returns objects. */
export type Representation = "json" | "table" | "metadata";

/** Returns the first form of an Accept header that the server supports; undefined if none. */
export function negotiateForm(accept: string | undefined): Representation | undefined {
  if (accept === undefined || accept.trim() === "") return "json";
  for (const range of accept.split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    if (!["application/json", "application/*", "*/*"].includes(type)) continue;
    const options = new Map(parameters.map((parameter) => split(parameter)));
    const form = representation(options);
    if (form !== undefined) return form;
  }
  return undefined;
}

function representation(options: ReadonlyMap<string, string>): Representation | undefined {
  const as = options.get("as");
  // Clients such as discovery request other conversions with a fallback behind them.
  if (as === undefined) return "json";
  if (options.get("g") !== "meta.k8s.io" || options.get("v") !== "v1") return undefined;
  if (as === "table") return "table";
  return as === "partialobjectmetadata" || as === "partialobjectmetadatalist" ? "metadata" : undefined;
}

function split(parameter: string): [string, string] {
  const equals = parameter.indexOf("=");
  return equals < 0 ? [parameter, ""] : [parameter.slice(0, equals), parameter.slice(equals + 1)];
}
