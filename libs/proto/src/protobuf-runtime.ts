import protobuf from "protobufjs/minimal.js";

// protobufjs decodes 64-bit fields to objects if any dependency installs the package `long`, whatever the generated types state. Ours are numbers:
// milliseconds, sizes and revisions, all below 2^53. Must run before the generated classes exist, because they store defaults.
Reflect.set(protobuf.util, "Long", undefined);
protobuf.configure();

export default protobuf;
