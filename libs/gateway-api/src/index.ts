export {
  parseFields,
  parseQueryValue,
  INTEGERS,
  isPlain,
  parseMessage,
  getShape,
  toJson,
  getTypeName,
} from "./json-messages.ts";
export type { AnyResource, FieldPath, AdditionalRight } from "./resource.ts";
export { RESOURCES } from "./resources.ts";
export { isCreation, OWN_FIELDS, buildRoutes, type Right, type Route } from "./route.ts";
export { findList, isWatchable, listNames, MAX_WATCHED_LISTS, WATCH_PATH, type NamedList } from "./watch-path.ts";
