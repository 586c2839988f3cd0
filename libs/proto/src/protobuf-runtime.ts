import protobuf from "protobufjs/minimal.js";

// protobufjs decodes 64-bit fields to objects as soon as the package `long` is installed by anybody, whatever the generated types say. Ours are numbers:
// times in milliseconds, sizes and revisions, all below 2^53. Must run before the generated classes are made, because they hold defaults.
Reflect.set(protobuf.util, "Long", undefined);
protobuf.configure();

export default protobuf;
