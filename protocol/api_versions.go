package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// Feature is a feature level of the cluster, as ApiVersions v3+ shows it.
type Feature struct {
	Name      string
	Min, Max  int16 // what this broker can do
	Finalized int16 // what the cluster does; 0 = off, and then it is not listed as finalised
}

// Features are the feature levels of this version of leat.
//
// Clients act on finalised levels, so only what leat does may be listed. metadata.version is there because tools take the level of the cluster from
// it: 33 is Kafka 4.4. group.version 1 is the consumer group protocol of KIP-848. Not listed: transaction.version, which at 2 makes producers leave out AddPartitionsToTxn and expect a new epoch after every
// transaction (it comes with transactions); share.version, streams.version (they come with their coordinators); kraft.version
// and eligible.leader.replicas.version (nothing of leat's follows from them).
var Features = []Feature{
	{Name: "group.version", Min: 0, Max: 1, Finalized: 1},
	{Name: "metadata.version", Min: 33, Max: 33, Finalized: 33},
}

// APIVersions is the answer to ApiVersions, versions 0 to 5, made from APIs. epoch is that of the finalised features, -1 when it is not known.
func APIVersions(version int16, features []Feature, epoch int64) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(APIs))
	for i := range APIs {
		resp.ApiKeys = append(resp.ApiKeys, advertised(&APIs[i]))
	}
	if version >= 3 {
		addFeatures(resp, features, epoch)
	}
	return resp
}

// UnsupportedAPIVersions is the answer to an ApiVersions request whose version is not known: in the format of version 0, with the range of
// ApiVersions itself, from which the client takes its next try.
func UnsupportedAPIVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(UnsupportedVersion)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{advertised(LookupAPI(KeyAPIVersions))}
	return resp
}

func advertised(a *API) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.AdvertisedMin, a.Max
	return k
}

func addFeatures(resp *kmsg.ApiVersionsResponse, features []Feature, epoch int64) {
	resp.FinalizedFeaturesEpoch = epoch
	for _, f := range features {
		if f.Min > 0 || resp.Version >= 4 { // KAFKA-17011: clients of version 3 cannot read a feature with the minimum 0
			s := kmsg.NewApiVersionsResponseSupportedFeature()
			s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
			resp.SupportedFeatures = append(resp.SupportedFeatures, s)
		}
		if f.Finalized > 0 && epoch >= 0 {
			z := kmsg.NewApiVersionsResponseFinalizedFeature()
			z.Name, z.MinVersionLevel, z.MaxVersionLevel = f.Name, f.Finalized, f.Finalized
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, z)
		}
	}
}
