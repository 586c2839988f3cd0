import { isObject, type Json, type JsonObject, listAt, objectAt, put, textAt, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { type Problem, required } from "../status.ts";
import { AGE, column, NAME } from "../table.ts";

/** What the containers of a namespace get that do not say what they need. Its bounds (`min`, `max`, ratios) are kept as data, and hold nobody back. */
export const limitRanges: Resource = defineResource({
  kind: "LimitRange",
  plural: "limitranges",
  shortNames: ["limits"],
  checkName: checkSubdomain,
  columns: [NAME, column("Created At", (range) => textAt(range, "metadata", "creationTimestamp")), AGE],
  defaults: (range) => put(range, ["spec", "limits"], listAt(range, "spec", "limits").map(defaultItem)),
  validate: checkRange,
});

/** The spec of a pod with what the ranges of its namespace give to its containers. */
export function withLimits(spec: JsonObject, ranges: readonly JsonObject[]): JsonObject {
  const items = ranges.flatMap((range) => listAt(range, "spec", "limits")).filter(isOfContainers);
  const fill = (container: Json): Json => (isObject(container) ? fillContainer(container, items) : container);
  return ["containers", "initContainers"].reduce(
    (filled, key) => (key in filled ? put(filled, [key], listAt(filled, key).map(fill)) : filled),
    spec,
  );
}

function fillContainer(container: JsonObject, items: readonly Json[]): JsonObject {
  const fill = (kind: string, from: string): JsonObject =>
    items.reduce<JsonObject>(
      (said, item) => withDefaults(said, objectAt(item, from)),
      objectAt(container, "resources", kind),
    );
  const amounts = { requests: fill("requests", "defaultRequest"), limits: fill("limits", "default") };
  const said = Object.entries(amounts).filter(([, each]) => Object.keys(each).length > 0);
  return put(container, ["resources"], { ...objectAt(container, "resources"), ...Object.fromEntries(said) });
}

/** Who says only the most gets that, and who says only what is limited asks for as much. */
function defaultItem(item: Json): Json {
  if (!isObject(item) || !isOfContainers(item)) return item;
  const most = withDefaults(objectAt(item, "default"), objectAt(item, "max"));
  const asked = withDefaults(withDefaults(objectAt(item, "defaultRequest"), most), objectAt(item, "min"));
  return { ...item, default: most, defaultRequest: asked };
}

function isOfContainers(item: Json): boolean {
  return textAt(item, "type") === "Container";
}

function checkRange(range: JsonObject): Problem[] {
  return listAt(range, "spec", "limits").flatMap((item, at) =>
    textAt(item, "type") === "" ? [required(`spec.limits[${at}].type`)] : [],
  );
}
