package protocol

// GroupStoryTag is a tagged field of leat's own, in DescribeGroups from version 5 on. In a request it asks for the stories of the groups; in the answer each group has
// its story under the same number, as JSON (coordinator/group.Story). Requests without it are answered as Kafka answers them. The number is 10000 and the API key: those
// of Kafka are small.
const GroupStoryTag uint32 = 10015
