import {
  at,
  isObject,
  type JsonValue,
  type JsonObject,
  getList,
  getObject,
  setAt,
  getText,
  withDefaults,
} from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { fail, notServed, type Problem, required } from "../status.ts";

const BOUNDS = ["max", "maxLimitRequestRatio", "min"];

/** Default resources of the containers of a namespace, for leases of type kubernetes. A range with bounds is refused, because nothing here enforces them. */
export const limitRanges: Resource = defineResource({
  kind: "LimitRange",
  plural: "limitranges",
  shortNames: ["limits"],
  checkName: checkSubdomain,
  defaults: (range) => setAt(range, ["spec", "limits"], getList(range, "spec", "limits").map(defaultItem)),
  validate: checkRange,
});

/** The spec of a pod with the defaults that the ranges of its namespace set for its containers. */
export function withLimits(spec: JsonObject, ranges: readonly JsonObject[]): JsonObject {
  const items = ranges.flatMap((range) => getList(range, "spec", "limits")).filter(isOfContainers);
  const fill = (container: JsonValue): JsonValue => (isObject(container) ? fillContainer(container, items) : container);
  return ["containers", "initContainers"].reduce(
    (filled, key) => (key in filled ? setAt(filled, [key], getList(filled, key).map(fill)) : filled),
    spec,
  );
}

function fillContainer(container: JsonObject, items: readonly JsonValue[]): JsonObject {
  const fill = (kind: string, from: string): JsonObject =>
    items.reduce<JsonObject>(
      (said, item) => withDefaults(said, getObject(item, from)),
      getObject(container, "resources", kind),
    );
  const amounts = { requests: fill("requests", "defaultRequest"), limits: fill("limits", "default") };
  const said = Object.entries(amounts).filter(([, each]) => Object.keys(each).length > 0);
  return setAt(container, ["resources"], { ...getObject(container, "resources"), ...Object.fromEntries(said) });
}

/** A container requests its limit where the range names no request. */
function defaultItem(item: JsonValue): JsonValue {
  if (!isObject(item) || !isOfContainers(item)) return item;
  const limits = getObject(item, "default");
  return { ...item, default: limits, defaultRequest: withDefaults(getObject(item, "defaultRequest"), limits) };
}

function isOfContainers(item: JsonValue): boolean {
  return getText(item, "type") === "Container";
}

function checkRange(range: JsonObject): Problem[] {
  return getList(range, "spec", "limits").flatMap((item, index) => {
    const field = `spec.limits[${index}]`;
    if (getText(item, "type") === "") return [required(`${field}.type`)];
    if (!isOfContainers(item)) fail(notServed(`${field}.type ${getText(item, "type")}`));
    const bound = BOUNDS.find((name) => at(item, name) !== undefined);
    return bound === undefined ? [] : fail(notServed(`${field}.${bound}`));
  });
}
