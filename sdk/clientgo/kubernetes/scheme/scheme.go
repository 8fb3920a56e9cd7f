// Package scheme has the default scheme of a plugin. The scheme contains only the API groups of Kubernetes that the
// plugin imports, because all groups together would make the plugin several times larger.
package scheme

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var (
	// Scheme contains the API groups that the plugin imports.
	Scheme = runtime.NewScheme()

	// Codecs encodes and decodes the types of Scheme.
	Codecs = CodecFactory{}

	// ParameterCodec converts options of requests to query parameters.
	ParameterCodec = runtime.NewParameterCodec(Scheme)

	// AddToScheme adds the API groups that the plugin imports to a scheme.
	AddToScheme = groups.AddToScheme
)

func init() {
	metav1.AddToGroupVersion(Scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(AddToScheme(Scheme))
}

// CodecFactory has the methods of serializer.CodecFactory that decode and encode objects. It creates the real factory
// when it is first used, so that a plugin without codecs does not contain them.
type CodecFactory struct{}

var factory = sync.OnceValue(func() serializer.CodecFactory { return serializer.NewCodecFactory(Scheme) })

// SupportedMediaTypes returns the media types and their serializers.
func (CodecFactory) SupportedMediaTypes() []runtime.SerializerInfo {
	return factory().SupportedMediaTypes()
}

// LegacyCodec encodes to the first possible version, and decodes without conversion to it.
func (CodecFactory) LegacyCodec(version ...schema.GroupVersion) runtime.Codec {
	return factory().LegacyCodec(version...)
}

// UniversalDeserializer decodes any known format and version, without defaults or conversion.
func (CodecFactory) UniversalDeserializer() runtime.Decoder { return factory().UniversalDeserializer() }

// UniversalDecoder decodes any known format, and converts to one of these versions.
func (CodecFactory) UniversalDecoder(versions ...schema.GroupVersion) runtime.Decoder {
	return factory().UniversalDecoder(versions...)
}

// CodecForVersions combines an encoder and a decoder with conversions.
func (CodecFactory) CodecForVersions(
	encoder runtime.Encoder, decoder runtime.Decoder, encode runtime.GroupVersioner, decode runtime.GroupVersioner,
) runtime.Codec {
	return factory().CodecForVersions(encoder, decoder, encode, decode)
}

// DecoderToVersion returns a decoder that converts to a version.
func (CodecFactory) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return factory().DecoderToVersion(decoder, version)
}

// EncoderForVersion returns an encoder that converts to a version.
func (CodecFactory) EncoderForVersion(encoder runtime.Encoder, version runtime.GroupVersioner) runtime.Encoder {
	return factory().EncoderForVersion(encoder, version)
}

// WithoutConversion returns serializers that do not convert between versions.
func (CodecFactory) WithoutConversion() runtime.NegotiatedSerializer {
	return factory().WithoutConversion()
}
