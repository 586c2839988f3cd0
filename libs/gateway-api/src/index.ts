export { fromJson, fromText, INTEGERS, isPlain, messageFromJson, shapeOf, toJson, typeName } from "./json-messages.ts";
export type { AnyResource, FieldPath, AdditionalRight } from "./resource.ts";
export { RESOURCES } from "./resources.ts";
export { isCreation, OWN_FIELDS, routesOf, type Right, type Route } from "./route.ts";
export { findList, isWatchable, listNames, MAX_WATCHED_LISTS, WATCH_PATH, type NamedList } from "./watch-path.ts";
